package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// claims is the payload of a token. The registered claims are checked by the
// parser; who it is by Verify.
type claims struct {
	jwt.RegisteredClaims
	Name string `json:"name,omitempty"`
}

// UnmarshalJSON is stricter than encoding/json, which takes "SUB" for "sub" and
// the last of several. Two readers of such a token could see two people in it.
func (c *claims) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return errors.New("the payload is not an object")
	}
	targets := map[string]any{
		"iss": &c.Issuer, "sub": &c.Subject, "aud": &c.Audience, "jti": &c.ID,
		"exp": &c.ExpiresAt, "nbf": &c.NotBefore, "iat": &c.IssuedAt,
	}
	seen := make(map[string]bool)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // keys are
		if seen[key] {
			return fmt.Errorf("the payload has %q twice", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if target, ok := targets[key]; ok {
			if err := json.Unmarshal(value, target); err != nil {
				return fmt.Errorf("claim %s: %w", key, err)
			}
		}
		if key == "name" && json.Unmarshal(value, &c.Name) != nil {
			c.Name = "" // some issuers have an object there; it decides nothing
		}
	}
	return nil
}
