package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Mint returns an HS256 token for sub that a Verifier with the same secret,
// issuer and audience takes for lifetime. name, issuer and audience may be "".
// It is for trying things out: a real issuer has a key of its own.
func Mint(secret []byte, sub, name, issuer, audience string, lifetime time.Duration) (string, error) {
	if len(secret) < minSecret {
		return "", fmt.Errorf("the secret has %d bytes and needs at least %d", len(secret), minSecret)
	}
	if fault := checkSub(sub); fault != "" {
		return "", errors.New(fault)
	}
	if lifetime <= 0 {
		return "", fmt.Errorf("a lifetime of %s is none", lifetime)
	}
	now := time.Now()
	content := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject:   sub,
			Issuer:    issuer,
			IssuedAt:  jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(now.Add(lifetime)),
		},
		Name: cleanName(name),
	}
	if audience != "" {
		content.Audience = jwt.ClaimStrings{audience}
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, content).SignedString(secret)
	if err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return token, nil
}
