package auth_test

import (
	"context"
	"crypto"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/tallyfeed/tallyfeed/auth"
)

// issuer publishes keys over HTTP.
type issuer struct {
	*httptest.Server
	reads atomic.Int64

	mu   sync.Mutex
	body string // "": answers 503
}

func newIssuer(t *testing.T, body string) *issuer {
	t.Helper()
	i := &issuer{body: body}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.reads.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.body == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(i.body))
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) publish(body string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.body = body
}

func keys(t *testing.T, byID map[string]crypto.PublicKey) string {
	t.Helper()
	// An encryption key, one nobody can use and one that is broken stand in the
	// same set of many an issuer; so may a shared secret by mistake.
	all := []string{
		`{"kty":"oct","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY","kid":"oct"}`,
		`{"kty":"weird","kid":"w"}`, `{"kty":"RSA","n":"!","e":"AQAB"}`,
	}
	for id, key := range byID {
		jwk, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: id}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(jwk.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return `{"keys":[` + strings.Join(all, ",") + `]}`
}

func token(t *testing.T, method jwt.SigningMethod, key any, kid string) string {
	t.Helper()
	header := fmt.Sprintf(`{"alg":%q,"kid":%q}`, method.Alg(), kid)
	if kid == "" {
		header = fmt.Sprintf(`{"alg":%q}`, method.Alg())
	}
	return raw(t, method, key, header, fmt.Sprintf(`{"exp":%d,"sub":"alice"}`, time.Now().Unix()+60))
}

func TestJWKS(t *testing.T) {
	t.Parallel()
	r, e, ed := rsaKey(t, 2048), ecKey(t, elliptic.P256()), edKey(t)
	public := keys(t, map[string]crypto.PublicKey{"r": r.Public(), "e": e.Public(), "ed": ed.Public(), "p384": ecKey(t, elliptic.P384()).Public()})
	v := verifier(t, auth.Config{JWKSURL: newIssuer(t, public).URL, KeysRetry: time.Hour})
	if err := v.Ready(); err != nil {
		t.Fatalf("ready: %v", err)
	}
	cases := map[string]struct {
		token string
		taken bool
	}{
		"RS256":     {token(t, jwt.SigningMethodRS256, r, "r"), true},
		"ES256":     {token(t, jwt.SigningMethodES256, e, "e"), true},
		"EdDSA":     {token(t, jwt.SigningMethodEdDSA, ed, "ed"), true},
		"NoKID":     {token(t, jwt.SigningMethodES256, e, ""), true},
		"OtherKey":  {token(t, jwt.SigningMethodRS256, r, "e"), false},
		"Stranger":  {token(t, jwt.SigningMethodEdDSA, edKey(t), "ed"), false},
		"Unknown":   {token(t, jwt.SigningMethodEdDSA, edKey(t), "other"), false},
		"SharedKey": {token(t, jwt.SigningMethodHS256, secret, "oct"), false},
		"PublicKey": {token(t, jwt.SigningMethodHS256, publicPEM(t, r.Public()), "r"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			viewer, err := v.Verify(t.Context(), tc.token)
			if tc.taken && (err != nil || viewer.Sub != "alice") {
				t.Errorf("%+v, %v", viewer, err)
			}
			if !tc.taken && !errors.Is(err, auth.ErrInvalidToken) {
				t.Errorf("%+v, %v; want ErrInvalidToken", viewer, err)
			}
		})
	}
}

func TestJWKSRotation(t *testing.T) {
	t.Parallel()
	before, after := edKey(t), edKey(t)
	source := newIssuer(t, keys(t, map[string]crypto.PublicKey{"1": before.Public()}))
	v := verifier(t, auth.Config{JWKSURL: source.URL, KeysRetry: time.Nanosecond})
	if _, err := v.Verify(t.Context(), token(t, jwt.SigningMethodEdDSA, before, "1")); err != nil {
		t.Fatalf("first key: %v", err)
	}

	source.publish(keys(t, map[string]crypto.PublicKey{"2": after.Public()}))
	if _, err := v.Verify(t.Context(), token(t, jwt.SigningMethodEdDSA, after, "2")); err != nil {
		t.Errorf("second key, at its first use: %v", err)
	}
	if _, err := v.Verify(t.Context(), token(t, jwt.SigningMethodEdDSA, before, "1")); !errors.Is(err, auth.ErrInvalidToken) {
		t.Errorf("first key, withdrawn: %v", err)
	}
}

func TestJWKSDown(t *testing.T) {
	t.Parallel()
	key := edKey(t)
	source := newIssuer(t, "")
	v := verifier(t, auth.Config{JWKSURL: source.URL, KeysRetry: 5 * time.Millisecond})
	good := token(t, jwt.SigningMethodEdDSA, key, "1")
	if err := v.Ready(); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("ready without keys: %v", err)
	}
	if _, err := v.Verify(t.Context(), good); !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, auth.ErrInvalidToken) {
		t.Errorf("token without keys: %v, want ErrUnavailable only", err)
	}

	// It comes up by itself: a server that is not ready gets no requests.
	source.publish(keys(t, map[string]crypto.PublicKey{"1": key.Public()}))
	eventually(t, "ready", func() bool { return v.Ready() == nil })
	if _, err := v.Verify(t.Context(), good); err != nil {
		t.Errorf("token with keys: %v", err)
	}

	// What is known is kept while the issuer is away.
	source.publish("")
	eventually(t, "an unknown key may be a new one", func() bool {
		_, err := v.Verify(t.Context(), token(t, jwt.SigningMethodEdDSA, key, "2"))
		return errors.Is(err, auth.ErrUnavailable)
	})
	if _, err := v.Verify(t.Context(), good); err != nil || v.Ready() != nil {
		t.Errorf("known key with the issuer away: %v, ready: %v", err, v.Ready())
	}
}

// TestJWKSUnknownKeysAreCheap has strangers make up keys: the issuer must not
// feel it, and nobody may wait for it.
func TestJWKSUnknownKeysAreCheap(t *testing.T) {
	t.Parallel()
	key := edKey(t)
	source := newIssuer(t, keys(t, map[string]crypto.PublicKey{"1": key.Public()}))
	v := verifier(t, auth.Config{JWKSURL: source.URL, KeysRetry: time.Hour})
	var group sync.WaitGroup
	for n := range 100 {
		forged := token(t, jwt.SigningMethodEdDSA, key, fmt.Sprint("made-up-", n))
		group.Go(func() {
			if _, err := v.Verify(t.Context(), forged); !errors.Is(err, auth.ErrInvalidToken) {
				t.Errorf("made-up key: %v", err)
			}
		})
	}
	group.Wait()
	if got := source.reads.Load(); got != 1 {
		t.Errorf("100 made-up keys caused %d reads", got)
	}
}

func TestJWKSCallerGivesUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hanging.Close()
	defer close(release)

	starting, cancel := context.WithCancel(t.Context())
	cancel() // so that New does not wait for the first read
	v, err := auth.New(starting, auth.Config{JWKSURL: hanging.URL, KeysRetry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := v.Verify(ctx, token(t, jwt.SigningMethodEdDSA, edKey(t), "1")); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("while the issuer hangs: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("still not after 10 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
