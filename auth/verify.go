package auth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	maxToken  = 8 << 10 // bytes
	minSecret = 32      // bytes: shorter than its hash, an HMAC key can be guessed sooner
	leeway    = 30 * time.Second
)

// Config says how tokens are checked. Exactly one of Secret, PublicKeyPEM and
// JWKSURL is given.
type Config struct {
	// Secret checks HS256, and has at least 32 bytes.
	Secret []byte

	// PublicKeyPEM is a PEM file with one public key or certificate. The kind of
	// key decides the one algorithm: RSA of at least 2048 bits RS256, P-256
	// ES256, Ed25519 EdDSA.
	PublicKeyPEM []byte

	// JWKSURL is where an issuer publishes its keys, of the same three kinds.
	JWKSURL string

	// Issuer and Audience must be those of the token where they are given.
	Issuer, Audience string

	// KeysEvery is how often the keys of JWKSURL are read again. 0: 5 minutes.
	KeysEvery time.Duration

	// KeysRetry is the least time between two attempts: the pace while there are
	// no keys yet, and how often tokens with unknown keys may cause one. 0: 5 s.
	KeysRetry time.Duration
}

// Verifier checks tokens. It is safe for use by many goroutines.
type Verifier struct {
	parser *jwt.Parser
	key    func(ctx context.Context, token *jwt.Token) (any, error)
	ready  func() error
}

// New makes a Verifier. With JWKSURL it reads the keys before it returns, for at
// most 2 s, and goes on until ctx ends; keys that can't be had are no error of
// New but of Ready and Verify.
func New(ctx context.Context, config Config) (*Verifier, error) {
	given := 0
	for _, source := range []bool{len(config.Secret) > 0, len(config.PublicKeyPEM) > 0, config.JWKSURL != ""} {
		if source {
			given++
		}
	}
	if given != 1 {
		return nil, errors.New("tokens are checked by exactly one of a secret, a public key and a JWKS URL")
	}

	v := &Verifier{ready: func() error { return nil }}
	var methods []string
	switch {
	case len(config.Secret) > 0:
		if len(config.Secret) < minSecret {
			return nil, fmt.Errorf("the secret has %d bytes and needs at least %d", len(config.Secret), minSecret)
		}
		methods = []string{jwt.SigningMethodHS256.Alg()}
		v.key = always(config.Secret)
	case len(config.PublicKeyPEM) > 0:
		key, method, err := parsePublicKey(config.PublicKeyPEM)
		if err != nil {
			return nil, fmt.Errorf("read the public key: %w", err)
		}
		methods = []string{method}
		v.key = always(key)
	default:
		keys, err := newKeySet(config)
		if err != nil {
			return nil, err
		}
		_ = keys.refresh(ctx) // Ready tells, and Verify tries again
		go keys.run(ctx)
		methods = []string{jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg(), jwt.SigningMethodEdDSA.Alg()}
		v.key, v.ready = keys.find, keys.ready
	}

	options := []jwt.ParserOption{
		jwt.WithValidMethods(methods), jwt.WithExpirationRequired(), jwt.WithLeeway(leeway), jwt.WithStrictDecoding(),
	}
	if config.Issuer != "" {
		options = append(options, jwt.WithIssuer(config.Issuer))
	}
	if config.Audience != "" {
		options = append(options, jwt.WithAudience(config.Audience))
	}
	v.parser = jwt.NewParser(options...)
	return v, nil
}

func always(key crypto.PublicKey) func(context.Context, *jwt.Token) (any, error) {
	return func(context.Context, *jwt.Token) (any, error) { return key, nil }
}

// Ready reports why tokens can't be checked yet, as ErrUnavailable, or nil.
func (v *Verifier) Ready() error { return v.ready() }

// Verify returns who token was given to. A token with any fault is an
// ErrInvalidToken whose message may go to the client; ErrUnavailable means that
// it could not be checked. Verify keeps nothing: a token is checked each time.
func (v *Verifier) Verify(ctx context.Context, token string) (Viewer, error) {
	if len(token) > maxToken {
		return Viewer{}, invalid("token is longer than 8 KiB")
	}
	var who claims
	_, err := v.parser.ParseWithClaims(token, &who, func(token *jwt.Token) (any, error) {
		// We understand no extension, so one that must be understood is refused.
		if _, ok := token.Header["crit"]; ok {
			return nil, invalid("token needs extensions that are not known here")
		}
		return v.key(ctx, token)
	})
	if err != nil {
		return Viewer{}, explain(err)
	}
	if fault := checkSub(who.Subject); fault != "" {
		return Viewer{}, invalid(fault)
	}
	return Viewer{Sub: who.Subject, Name: cleanName(who.Name), Expires: who.ExpiresAt.Add(leeway)}, nil
}

// explain turns a fault that the parser found into one for the client.
func explain(err error) error {
	if own, ok := errors.AsType[invalidError](err); ok {
		return own
	}
	if errors.Is(err, ErrUnavailable) {
		return ErrUnavailable
	}
	for _, fault := range []struct {
		is     error
		reason string
	}{
		{jwt.ErrTokenMalformed, "token is malformed"},
		{jwt.ErrTokenUnverifiable, "token can't be checked by the keys of this server"},
		{jwt.ErrTokenSignatureInvalid, "signature or algorithm is not valid"},
		{jwt.ErrTokenRequiredClaimMissing, "token lacks a required claim"},
		{jwt.ErrTokenExpired, "token is expired"},
		{jwt.ErrTokenNotValidYet, "token is not valid yet"},
		{jwt.ErrTokenInvalidIssuer, "token is from another issuer"},
		{jwt.ErrTokenInvalidAudience, "token is for another audience"},
	} {
		if errors.Is(err, fault.is) {
			return invalid(fault.reason)
		}
	}
	return invalid("token is not acceptable")
}
