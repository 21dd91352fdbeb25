package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

const minRSABits = 2048

// parsePublicKey returns the key of a PEM file and the one algorithm to check by
// it. Pinning the algorithm keeps a forger from choosing another, such as HS256
// with the text of the public key for its secret.
func parsePublicKey(file []byte) (key crypto.PublicKey, method string, err error) {
	block, _ := pem.Decode(file)
	if block == nil {
		return nil, "", errors.New("the file is not PEM")
	}
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = certificate.PublicKey
		}
	default:
		// A private key does not belong on a server that only checks.
		return nil, "", fmt.Errorf("the file holds a %s, not a public key", block.Type)
	}
	if err != nil {
		return nil, "", err
	}
	method, err = methodOf(key)
	return key, method, err
}

// methodOf returns the algorithm that goes with a key, or why it can't be used.
func methodOf(key crypto.PublicKey) (string, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSABits {
			return "", fmt.Errorf("the RSA key has %d bits and needs at least %d", key.N.BitLen(), minRSABits)
		}
		return jwt.SigningMethodRS256.Alg(), nil
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return "", fmt.Errorf("the key is on the curve %s and must be on P-256", key.Params().Name)
		}
		return jwt.SigningMethodES256.Alg(), nil
	case ed25519.PublicKey:
		return jwt.SigningMethodEdDSA.Alg(), nil
	}
	return "", fmt.Errorf("keys of type %T are not supported", key)
}
