package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tallyfeed/tallyfeed/auth"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

func verifier(tb testing.TB, config auth.Config) *auth.Verifier {
	tb.Helper()
	v, err := auth.New(tb.Context(), config)
	if err != nil {
		tb.Fatalf("new verifier: %v", err)
	}
	return v
}

// raw signs a payload as it stands, which no library would write.
func raw(tb testing.TB, method jwt.SigningMethod, key any, header, payload string) string {
	tb.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(header)) + "." + encode([]byte(payload))
	signature, err := method.Sign(signed, key)
	if err != nil {
		tb.Fatalf("sign: %v", err)
	}
	return signed + "." + encode(signature)
}

func hs256(tb testing.TB, payload string) string {
	tb.Helper()
	return raw(tb, jwt.SigningMethodHS256, secret, `{"alg":"HS256","typ":"JWT"}`, payload)
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	strict := verifier(t, auth.Config{Secret: secret, Issuer: "us", Audience: "feed"})
	now := time.Now().Unix()
	// payload is good but for what a case puts in.
	payload := func(sub, rest string) string {
		return fmt.Sprintf(`{"iss":"us","aud":"feed","exp":%d,"sub":%s%s}`, now+600, sub, rest)
	}
	good := hs256(t, payload(`"alice"`, ""))
	if viewer, err := strict.Verify(t.Context(), good); err != nil || viewer.Sub != "alice" {
		t.Fatalf("a good token: %+v, %v", viewer, err)
	}
	none := func(alg string) string {
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"`+alg+`"}`)) + "." + encode([]byte(payload(`"alice"`, ""))) + "."
	}

	cases := map[string]struct{ reason, token, says string }{
		"Empty":         {"An empty token is no token.", "", "malformed"},
		"NotAToken":     {"Anything may come.", "alice", "malformed"},
		"AlgNone":       {"A token without a signature proves nothing.", none("none"), "algorithm"},
		"AlgNoneCase":   {"Nor does one in other letters.", none("nOnE"), "can't be checked"},
		"OtherHMAC":     {"Only one algorithm is meant.", raw(t, jwt.SigningMethodHS512, secret, `{"alg":"HS512"}`, payload(`"alice"`, "")), "algorithm"},
		"OtherSecret":   {"The signature must be by our key.", raw(t, jwt.SigningMethodHS256, []byte("another"), `{"alg":"HS256"}`, payload(`"alice"`, "")), "signature"},
		"CutSignature":  {"A signature is compared whole.", good[:len(good)-3], "signature"},
		"SpareBits":     {"One token has one spelling.", good[:len(good)-1] + flipSpareBit(good[len(good)-1]), "malformed"},
		"NoExp":         {"A token that never ends can't be taken back.", hs256(t, `{"iss":"us","aud":"feed","sub":"alice"}`), "required"},
		"NullExp":       {"Null is not a time.", hs256(t, `{"iss":"us","aud":"feed","sub":"alice","exp":null}`), "required"},
		"HugeExp":       {"A number beyond all times must not wrap.", hs256(t, `{"iss":"us","aud":"feed","sub":"alice","exp":-1e300}`), "expired"},
		"Expired":       {"Past its time and the leeway.", hs256(t, fmt.Sprintf(`{"iss":"us","aud":"feed","sub":"alice","exp":%d}`, now-60)), "expired"},
		"NotYet":        {"nbf is honoured.", hs256(t, payload(`"alice"`, fmt.Sprintf(`,"nbf":%d`, now+120))), "not valid yet"},
		"OtherIssuer":   {"A key may serve several issuers.", hs256(t, fmt.Sprintf(`{"iss":"them","aud":"feed","exp":%d,"sub":"alice"}`, now+600)), "issuer"},
		"NoIssuer":      {"None is not ours.", hs256(t, fmt.Sprintf(`{"aud":"feed","exp":%d,"sub":"alice"}`, now+600)), "required"},
		"OtherAudience": {"A token for another service must not work here.", hs256(t, fmt.Sprintf(`{"iss":"us","aud":["x","y"],"exp":%d,"sub":"alice"}`, now+600)), "audience"},
		"NoAudience":    {"Nor one for nobody.", hs256(t, fmt.Sprintf(`{"iss":"us","exp":%d,"sub":"alice"}`, now+600)), "required"},
		"UnknownCrit":   {"What must be understood and isn't makes a token void.", raw(t, jwt.SigningMethodHS256, secret, `{"alg":"HS256","crit":["b64"],"b64":true}`, payload(`"alice"`, "")), "extensions"},
		"EmptyCrit":     {"An empty list is not allowed by the standard either.", raw(t, jwt.SigningMethodHS256, secret, `{"alg":"HS256","crit":[]}`, payload(`"alice"`, "")), "extensions"},
		"NoSub":         {"A viewer needs a name to go by.", hs256(t, fmt.Sprintf(`{"iss":"us","aud":"feed","exp":%d}`, now+600)), "sub is empty"},
		"EmptySub":      {"All empty subs would be one viewer.", hs256(t, payload(`""`, "")), "sub is empty"},
		"LongSub":       {"The limit is 128 characters.", hs256(t, payload(`"`+strings.Repeat("é", 129)+`"`, "")), "longer than 128"},
		"NumericSub":    {"Numbers above 2^53 would melt into each other.", hs256(t, payload(`9007199254740993`, "")), "malformed"},
		"ObjectSub":     {"A sub is a string.", hs256(t, payload(`{"a":1}`, "")), "malformed"},
		"DoubleSub":     {"Two readers could see two people.", hs256(t, payload(`"alice"`, `,"sub":"bob"`)), "malformed"},
		"SubNUL":        {"PostgreSQL can't keep it.", hs256(t, payload(`"a\u0000b"`, "")), "control"},
		"SubNewline":    {"It would break a log line.", hs256(t, payload(`"a\nb"`, "")), "control"},
		"PayloadArray":  {"A payload is an object.", hs256(t, `["alice"]`), "malformed"},
		"Dots":          {"CVE-2025-30204: dots must not be split into millions of parts.", strings.Repeat(".", 8_000_000), "8 KiB"},
		"TooLong":       {"No honest token is that long.", hs256(t, payload(`"alice"`, `,"x":"`+strings.Repeat("x", 9000)+`"`)), "8 KiB"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			viewer, err := strict.Verify(t.Context(), tc.token)
			if !errors.Is(err, auth.ErrInvalidToken) || viewer != (auth.Viewer{}) {
				t.Fatalf("%s\n%+v, %v; want nobody and ErrInvalidToken", tc.reason, viewer, err)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s\n%q does not say %q", tc.reason, err, tc.says)
			}
			if strings.Contains(err.Error(), "alice") || len(err.Error()) > 100 {
				t.Errorf("the message tells too much: %q", err)
			}
		})
	}
}

// flipSpareBit changes the last character of a token in the bits that don't
// count: 32 bytes of signature end in a character that holds four bits.
func flipSpareBit(last byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, last)^1])
}

func TestVerifyTakes(t *testing.T) {
	t.Parallel()
	plain := verifier(t, auth.Config{Secret: secret})
	now := time.Now().Unix()
	cases := map[string]struct {
		reason, payload string
		want            auth.Viewer
	}{
		"Plain":      {"No more than this is needed.", fmt.Sprintf(`{"exp":%d,"sub":"alice"}`, now+60), auth.Viewer{Sub: "alice"}},
		"Name":       {"The name comes along.", fmt.Sprintf(`{"exp":%d,"sub":"a","name":"Alice B."}`, now+60), auth.Viewer{Sub: "a", Name: "Alice B."}},
		"LongSub":    {"128 characters, not bytes.", fmt.Sprintf(`{"exp":%d,"sub":%q}`, now+60, strings.Repeat("é", 128)), auth.Viewer{Sub: strings.Repeat("é", 128)}},
		"LongName":   {"A name is cut, not refused.", fmt.Sprintf(`{"exp":%d,"sub":"a","name":%q}`, now+60, strings.Repeat("é", 300)), auth.Viewer{Sub: "a", Name: strings.Repeat("é", 200)}},
		"OddName":    {"A name that is none decides nothing.", fmt.Sprintf(`{"exp":%d,"sub":"a","name":{"first":"A"}}`, now+60), auth.Viewer{Sub: "a"}},
		"NameLines":  {"A name is one line.", fmt.Sprintf(`{"exp":%d,"sub":"a","name":" A\nB\u0000 "}`, now+60), auth.Viewer{Sub: "a", Name: "A B"}},
		"Leeway":     {"Clocks differ by some seconds.", fmt.Sprintf(`{"exp":%d,"nbf":%d,"sub":"a"}`, now-15, now+15), auth.Viewer{Sub: "a"}},
		"OtherCase":  {"SUB is a claim of somebody's own and not sub.", fmt.Sprintf(`{"exp":%d,"sub":"a","SUB":"b","Exp":1}`, now+60), auth.Viewer{Sub: "a"}},
		"Fractional": {"The standard allows fractions.", fmt.Sprintf(`{"exp":%d.5,"sub":"a"}`, now+60), auth.Viewer{Sub: "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := plain.Verify(t.Context(), hs256(t, tc.payload))
			if !got.Expires.After(time.Now()) {
				t.Errorf("%s\nit ends %s, which is past", tc.reason, got.Expires)
			}
			got.Expires = time.Time{}
			if err != nil || got != tc.want {
				t.Errorf("%s\n%+v, %v; want %+v", tc.reason, got, err, tc.want)
			}
		})
	}
}

func publicPEM(tb testing.TB, key crypto.PublicKey) []byte {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func rsaKey(tb testing.TB, bits int) *rsa.PrivateKey {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func ecKey(tb testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func edKey(tb testing.TB) ed25519.PrivateKey {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func TestPublicKeys(t *testing.T) {
	t.Parallel()
	rsaPrivate, ecPrivate, edPrivate := rsaKey(t, 2048), ecKey(t, elliptic.P256()), edKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "us"}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, ecPrivate.Public(), ecPrivate)
	if err != nil {
		t.Fatal(err)
	}
	payload := fmt.Sprintf(`{"exp":%d,"sub":"alice"}`, time.Now().Unix()+60)
	signed := map[string]string{
		"RS256": raw(t, jwt.SigningMethodRS256, rsaPrivate, `{"alg":"RS256"}`, payload),
		"PS256": raw(t, jwt.SigningMethodPS256, rsaPrivate, `{"alg":"PS256"}`, payload),
		"ES256": raw(t, jwt.SigningMethodES256, ecPrivate, `{"alg":"ES256"}`, payload),
		"EdDSA": raw(t, jwt.SigningMethodEdDSA, edPrivate, `{"alg":"EdDSA"}`, payload),
	}
	cases := map[string]struct {
		file []byte
		alg  string // the only one to be taken
	}{
		"RSA":         {publicPEM(t, rsaPrivate.Public()), "RS256"},
		"RSAPKCS1":    {pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&rsaPrivate.PublicKey)}), "RS256"},
		"EC":          {publicPEM(t, ecPrivate.Public()), "ES256"},
		"Certificate": {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), "ES256"},
		"Ed25519":     {publicPEM(t, edPrivate.Public()), "EdDSA"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := verifier(t, auth.Config{PublicKeyPEM: tc.file})
			for alg, token := range signed {
				viewer, err := v.Verify(t.Context(), token)
				if alg == tc.alg && (err != nil || viewer.Sub != "alice") {
					t.Errorf("%s: %+v, %v", alg, viewer, err)
				}
				if alg != tc.alg && !errors.Is(err, auth.ErrInvalidToken) {
					t.Errorf("%s with a key for %s: %+v, %v", alg, tc.alg, viewer, err)
				}
			}
			// The public key is no secret: whoever signs with it is nobody.
			forged := raw(t, jwt.SigningMethodHS256, tc.file, `{"alg":"HS256"}`, payload)
			if viewer, err := v.Verify(t.Context(), forged); !errors.Is(err, auth.ErrInvalidToken) {
				t.Errorf("HS256 by the public key: %+v, %v", viewer, err)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	private, err := x509.MarshalPKCS8PrivateKey(edKey(t))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		config auth.Config
	}{
		"Nothing":     {"Without a key no token can be checked.", auth.Config{}},
		"Two":         {"Which of two keys counts must not be a guess.", auth.Config{Secret: secret, JWKSURL: "http://127.0.0.1:1/"}},
		"ShortSecret": {"A short secret can be guessed from one token.", auth.Config{Secret: secret[:31]}},
		"NotPEM":      {"A wrong file is found at start.", auth.Config{PublicKeyPEM: []byte("key")}},
		"Broken":      {"So is a broken one.", auth.Config{PublicKeyPEM: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})}},
		"PrivateKey":  {"A private key does not belong here.", auth.Config{PublicKeyPEM: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}},
		"SmallRSA":    {"A small key can be factored.", auth.Config{PublicKeyPEM: publicPEM(t, rsaKey(t, 1024).Public())}},
		"OtherCurve":  {"ES256 is P-256.", auth.Config{PublicKeyPEM: publicPEM(t, ecKey(t, elliptic.P384()).Public())}},
		"NotAURL":     {"A typing error is found at start.", auth.Config{JWKSURL: "issuer.example/keys"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := auth.New(t.Context(), tc.config); err == nil {
				t.Errorf("%s\ntaken", tc.reason)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	v := verifier(b, auth.Config{Secret: secret, Issuer: "us", Audience: "feed"})
	token, err := auth.Mint(secret, "alice", "Alice", "us", "feed", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if viewer, err := v.Verify(b.Context(), token); err != nil || viewer.Sub != "alice" {
			b.Fatalf("%+v, %v", viewer, err)
		}
	}
}
