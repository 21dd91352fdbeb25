package auth_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/auth"
)

func TestBearer(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		headers []string
		token   string // "" with headers: to be refused
	}{
		"None":       {"No header is an anonymous viewer.", nil, ""},
		"Bearer":     {"The usual form.", []string{"Bearer a.b.c"}, "a.b.c"},
		"LowerCase":  {"Schemes have no case.", []string{"bearer a.b.c"}, "a.b.c"},
		"Spaces":     {"RFC 9110 lets several spaces stand.", []string{"Bearer   a.b.c "}, "a.b.c"},
		"Empty":      {"A client that lost its token must learn of it.", []string{""}, ""},
		"NoToken":    {"So must one that sends the scheme only.", []string{"Bearer"}, ""},
		"BlankToken": {"Or blanks.", []string{"Bearer   "}, ""},
		"Basic":      {"Another scheme is not anonymous.", []string{"Basic YTpi"}, ""},
		"BareToken":  {"The scheme is needed.", []string{"a.b.c"}, ""},
		"TwoTokens":  {"Which one would count?", []string{"Bearer a.b.c d.e.f"}, ""},
		"Tab":        {"A tab is not the separator.", []string{"Bearer\ta.b.c"}, ""},
		"Comma":      {"A proxy joins two headers by a comma.", []string{"Bearer a.b.c, Bearer d.e.f"}, ""},
		"Repeated":   {"Proxies differ in which of two they look at.", []string{"Bearer a.b.c", "Bearer a.b.c"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", nil)
			for _, h := range tc.headers {
				r.Header.Add("Authorization", h)
			}
			token, present, err := auth.Bearer(r)
			if token != tc.token || present != (tc.headers != nil) {
				t.Errorf("%s\ntoken %q, present %t", tc.reason, token, present)
			}
			if refused := tc.headers != nil && tc.token == ""; refused != errors.Is(err, auth.ErrInvalidToken) {
				t.Errorf("%s\n%v, want refused: %t", tc.reason, err, refused)
			}
		})
	}
}

func TestMint(t *testing.T) {
	t.Parallel()
	v := verifier(t, auth.Config{Secret: secret, Issuer: "us", Audience: "feed"})
	token, err := auth.Mint(secret, "alice", "Alice", "us", "feed", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.Verify(t.Context(), token)
	if err != nil || got.Sub != "alice" || got.Name != "Alice" {
		t.Errorf("its own token: %+v, %v", got, err)
	}
	if left := time.Until(got.Expires); left < time.Hour || left > time.Hour+time.Minute {
		t.Errorf("it is good for %s, want an hour and the leeway", left)
	}

	for name, mint := range map[string]func() (string, error){
		"NoSub":       func() (string, error) { return auth.Mint(secret, "", "", "", "", time.Hour) },
		"LongSub":     func() (string, error) { return auth.Mint(secret, strings.Repeat("x", 129), "", "", "", time.Hour) },
		"ControlSub":  func() (string, error) { return auth.Mint(secret, "a\x00", "", "", "", time.Hour) },
		"BrokenSub":   func() (string, error) { return auth.Mint(secret, "a\xff", "", "", "", time.Hour) },
		"ShortSecret": func() (string, error) { return auth.Mint(secret[:31], "alice", "", "", "", time.Hour) },
		"NoLifetime":  func() (string, error) { return auth.Mint(secret, "alice", "", "", "", 0) },
	} {
		if token, err := mint(); err == nil {
			t.Errorf("%s: minted %q", name, token)
		}
	}
}

func TestViewerFrom(t *testing.T) {
	t.Parallel()
	if viewer, ok := auth.ViewerFrom(context.Background()); ok {
		t.Errorf("nobody signed in: %+v", viewer)
	}
	ctx := auth.WithViewer(t.Context(), auth.Viewer{Sub: "alice"})
	if viewer, ok := auth.ViewerFrom(ctx); !ok || viewer.Sub != "alice" {
		t.Errorf("alice signed in: %+v, %t", viewer, ok)
	}
}

// FuzzVerify looks for a token that panics or gives a viewer without a proper
// sub. The seeds are good, so a change of one bit must be found out.
func FuzzVerify(f *testing.F) {
	v := verifier(f, auth.Config{Secret: secret})
	good, err := auth.Mint(secret, "alice", "Alice", "", "", 24*365*time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("..")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		if viewer, err := v.Verify(t.Context(), token); err == nil && (token != good || viewer.Sub != "alice") {
			t.Errorf("%q is taken for %+v", token, viewer)
		}
	})
}
