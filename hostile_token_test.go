package main

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Tokens as attackers make them, against a server that checks RS256 with a
// public key: the attacker knows that key too.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, public, 0o600); err != nil {
		t.Fatal(err)
	}
	p := hostileServer(t, "--jwt-public-key", file)

	encode := base64.RawURLEncoding.EncodeToString
	joined := func(header, payload string) string { return encode([]byte(header)) + "." + encode([]byte(payload)) }
	by := func(key *rsa.PrivateKey, header, payload string) string {
		text := joined(header, payload)
		sum := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return text + "." + encode(signature)
	}
	hmacBy := func(secret []byte, payload string) string {
		text := joined(`{"alg":"HS256","typ":"JWT"}`, payload)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		return text + "." + encode(mac.Sum(nil))
	}
	const rs256 = `{"alg":"RS256","typ":"JWT"}`
	at := func(when time.Time) int64 { return when.Unix() }
	soon, past := at(time.Now().Add(time.Hour)), at(time.Now().Add(-time.Hour))
	claims := func(sub, more string) string { return fmt.Sprintf(`{"sub":%s,"exp":%d%s}`, sub, soon, more) }
	alice := claims(`"alice"`, "")
	good := by(key, rs256, alice)

	type tokens map[string]struct {
		reason string
		values []string // of Authorization
		viewer string   // "" where it is refused
	}
	bearer := func(token string) []string { return []string{"Bearer " + token} }
	const whoIsAlice = `{"data":{"viewer":{"id":"user:YWxpY2U"}}}`
	cases := map[string]hostile{}
	for name, tc := range (tokens{
		"Good":         {"The others are refused for what is wrong with them.", bearer(good), whoIsAlice},
		"SchemeLower":  {"A scheme has no case (RFC 9110, section 11.1).", []string{"bearer " + good}, whoIsAlice},
		"SchemeUpper":  {"A scheme has no case.", []string{"BEARER " + good}, whoIsAlice},
		"SchemeSpaces": {"Several spaces may stand there.", []string{"Bearer   " + good}, whoIsAlice},

		"None":          {"A token that says it has no signature.", bearer(joined(`{"alg":"none"}`, alice) + "."), ""},
		"NoneMixed":     {"In letters that a comparison misses.", bearer(joined(`{"alg":"nOnE"}`, alice) + "."), ""},
		"NoneSigned":    {"With a signature for show.", bearer(joined(`{"alg":"none"}`, alice) + "." + strings.Split(good, ".")[2]), ""},
		"NoAlg":         {"No word on how it is signed.", bearer(by(key, `{"typ":"JWT"}`, alice)), ""},
		"PublicAsHMAC":  {"The public key, which everybody has, as the secret of HS256.", bearer(hmacBy(public, alice)), ""},
		"PublicTrimmed": {"The same as some read it.", bearer(hmacBy([]byte(strings.TrimSpace(string(public))), alice)), ""},
		"PublicDER":     {"The same without its wrapping.", bearer(hmacBy(der, alice)), ""},
		"EmptyHMAC":     {"No secret at all.", bearer(hmacBy(nil, alice)), ""},
		"RS384":         {"Another algorithm than the one that was agreed on.", bearer(by(key, `{"alg":"RS384"}`, alice)), ""},
		"OtherKey":      {"By somebody else.", bearer(by(other, rs256, alice)), ""},
		"OwnKey":        {"By a key that the token brings along.", bearer(by(other, `{"alg":"RS256","jwk":{"kty":"RSA","e":"AQAB","n":"`+encode(other.N.Bytes())+`"}}`, alice)), ""},
		"KeyAddress":    {"By a key that is elsewhere.", bearer(by(other, `{"alg":"RS256","jku":"http://127.0.0.1:1/keys","kid":"../../../dev/null"}`, alice)), ""},
		"Changed":       {"Another payload under the signature.", bearer(joined(rs256, claims(`"mallory"`, "")) + "." + strings.Split(good, ".")[2]), ""},
		"Cut":           {"A piece of the signature.", bearer(good[:len(good)-20]), ""},
		"NoSignature":   {"Two parts.", bearer(joined(rs256, alice)), ""},
		"FourParts":     {"Four.", bearer(good + ".x"), ""},

		"NoExp":         {"It would be good for ever.", bearer(by(key, rs256, `{"sub":"alice"}`)), ""},
		"NullExp":       {"Null is no time.", bearer(by(key, rs256, `{"sub":"alice","exp":null}`)), ""},
		"ZeroExp":       {"1970 is past.", bearer(by(key, rs256, `{"sub":"alice","exp":0}`)), ""},
		"TextExp":       {"A text is read as the time it holds, which is past.", bearer(by(key, rs256, fmt.Sprintf(`{"sub":"alice","exp":"%d"}`, past))), ""},
		"Expired":       {"An hour ago.", bearer(by(key, rs256, fmt.Sprintf(`{"sub":"alice","exp":%d}`, past))), ""},
		"NotYet":        {"In an hour.", bearer(by(key, rs256, claims(`"alice"`, fmt.Sprintf(`,"nbf":%d`, soon)))), ""},
		"Crit":          {"It must be understood, and is not.", bearer(by(key, `{"alg":"RS256","crit":["x"],"x":1}`, alice)), ""},
		"EmptySub":      {"All who have it would be one viewer.", bearer(by(key, rs256, claims(`""`, ""))), ""},
		"NoSub":         {"The same.", bearer(by(key, rs256, fmt.Sprintf(`{"exp":%d}`, soon))), ""},
		"LongSub":       {"128 characters are the limit.", bearer(by(key, rs256, claims(`"`+strings.Repeat("a", 129)+`"`, ""))), ""},
		"TwoSubs":       {"Two readers could see two people.", bearer(by(key, rs256, claims(`"mallory"`, `,"sub":"alice"`))), ""},
		"NumberSub":     {"Large ones melt into each other.", bearer(by(key, rs256, claims(`9007199254740993`, ""))), ""},
		"NULSub":        {"PostgreSQL keeps none.", bearer(by(key, rs256, claims(`"alice\u0000"`, ""))), ""},
		"SubInCapitals": {"SUB is not sub, and sub is missing.", bearer(by(key, rs256, fmt.Sprintf(`{"SUB":"alice","exp":%d}`, soon))), ""},

		"Dots":       {"CVE-2025-30204: each dot made a part.", bearer(strings.Repeat(".", 30_000)), ""},
		"Long":       {"No honest token is that long.", bearer(by(key, rs256, claims(`"alice"`, `,"x":"`+strings.Repeat("x", 9000)+`"`))), ""},
		"Two":        {"Proxies differ in which of two they look at.", []string{"Bearer " + good, "Bearer " + good}, ""},
		"TwoInOne":   {"A proxy joins two by a comma.", bearer(good + ", Bearer " + good), ""},
		"Basic":      {"Another scheme is not nobody.", []string{"Basic " + encode([]byte("alice:"+hushText))}, ""},
		"Bare":       {"A scheme is needed.", []string{good}, ""},
		"SchemeOnly": {"A client that lost its token must learn so.", []string{"Bearer"}, ""},
		"Empty":      {"The same.", []string{""}, ""},
		"Tab":        {"A tab is not the space.", []string{"Bearer\t" + good}, ""},
		"Password":   {"It is not repeated.", bearer(hushText), ""},
		"JSON":       {"The other form of these signatures.", bearer(`{"payload":"` + encode([]byte(alice)) + `"}`), ""},
	}) {
		attack := hostile{
			reason: tc.reason, headers: http.Header{"Content-Type": {jsonMedia}, "Accept": {graphqlMedia}, "Authorization": tc.values},
			body: jsonBody(`{viewer{id}}`), status: http.StatusUnauthorized, code: "UNAUTHENTICATED",
		}
		if tc.viewer != "" {
			attack.status, attack.code, attack.says = http.StatusOK, "", tc.viewer
		}
		cases[name] = attack
	}
	cases["EightMillionDots"] = hostile{
		reason: "They get no further than the headers' limit.",
		raw:    overWire("Authorization: Bearer "+strings.Repeat(".", 8_000_000)+"\r\n", ""), status: 431, foreign: true,
	}
	cases["BadBeforeBroken"] = hostile{
		reason: "Who has no good token learns nothing else.", headers: jsonHeaders("Authorization", "Bearer x"),
		body: "{", status: http.StatusUnauthorized, code: "UNAUTHENTICATED",
	}
	attack(t, p, cases)
	got := hostile{headers: jsonHeaders("Authorization", "Bearer x"), body: plainBody}.send(t, p)
	if asks := got.header.Get("WWW-Authenticate"); asks != `Bearer error="invalid_token"` {
		t.Errorf("WWW-Authenticate: %s", asks)
	}
	if strings.Contains(p.log.String(), good) {
		t.Errorf("the log has a token that is good: %s", &p.log)
	}
}
