package server

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Identity is whom a request speaks for.
type Identity struct {
	Owner string // "" is the one anonymous owner
	// Expires is when the right to speak ends, and with it an open stream.
	// Zero: never.
	Expires time.Time
}

// Auth finds a request's identity. Its error says why there is none, for the
// log only, and never holds any part of a token.
type Auth func(*http.Request) (Identity, error)

// Anonymous is authorization switched off.
func Anonymous(*http.Request) (Identity, error) { return Identity{}, nil }

// JWT says which tokens to trust. Exactly one of Secret and PublicKey is set.
type JWT struct {
	Secret    []byte // HS256, at least 32 bytes
	PublicKey []byte // PEM: RS256 for an RSA key, ES256 for one on P-256
	Issuer    string // when set, "iss" must be it
	Audience  string // when set, "aud" must contain it
}

const (
	minSecret = 32
	minRSA    = 2048
	maxToken  = 8 << 10
	clockSkew = 30 * time.Second
)

// NewJWT returns the Auth that takes bearer tokens. "sub" is the owner; "exp"
// is required, because it bounds how long a stream may stay open.
func NewJWT(o JWT) (Auth, error) {
	key, algorithm, err := o.key()
	if err != nil {
		return nil, err
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods([]string{algorithm}), jwt.WithExpirationRequired(), jwt.WithLeeway(clockSkew),
	}
	if o.Issuer != "" {
		options = append(options, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		options = append(options, jwt.WithAudience(o.Audience))
	}
	parser := jwt.NewParser(options...)
	return func(r *http.Request) (Identity, error) {
		token, err := bearer(r.Header)
		if err != nil {
			return Identity{}, err
		}
		var claims jwt.RegisteredClaims
		if _, err := parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
			return Identity{}, safe(err)
		}
		switch {
		case claims.Subject == "":
			return Identity{}, errors.New("token without sub")
		case !time.Now().Before(claims.ExpiresAt.Time):
			// The leeway is for tokens of an issuer whose clock is ahead. A stream
			// ends with its token, so there must be none for a new one.
			return Identity{}, jwt.ErrTokenExpired
		}
		return Identity{Owner: claims.Subject, Expires: claims.ExpiresAt.Time}, nil
	}, nil
}

func (o JWT) key() (key any, algorithm string, err error) {
	switch {
	case len(o.Secret) > 0 && len(o.PublicKey) > 0:
		return nil, "", errors.New("server: a JWT secret and a public key exclude each other")
	case len(o.Secret) >= minSecret:
		return o.Secret, "HS256", nil
	case len(o.Secret) > 0:
		return nil, "", fmt.Errorf("server: a JWT secret needs at least %d bytes", minSecret)
	}
	block, _ := pem.Decode(o.PublicKey)
	if block == nil {
		return nil, "", errors.New("server: the JWT public key is not PEM")
	}
	public, err := publicKey(block)
	if err != nil {
		return nil, "", err
	}
	switch k := public.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return nil, "", fmt.Errorf("server: the JWT public key has fewer than %d bits", minRSA)
		}
		return k, "RS256", nil
	case *ecdsa.PublicKey:
		if k.Params().BitSize == 256 {
			return k, "ES256", nil
		}
	}
	return nil, "", errors.New("server: the JWT public key is neither RSA nor on P-256")
}

func publicKey(b *pem.Block) (crypto.PublicKey, error) {
	if b.Type == "CERTIFICATE" {
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("server: the JWT certificate: %w", err)
		}
		return cert.PublicKey, nil
	}
	key, err := x509.ParsePKIXPublicKey(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("server: the JWT public key: %w", err)
	}
	return key, nil
}

// bearer takes the token from the one place where it may be: a URL ends up in
// logs, and a cookie is sent by browsers that were not asked.
func bearer(h http.Header) (string, error) {
	all := h.Values("Authorization")
	if len(all) != 1 {
		return "", fmt.Errorf("%d Authorization headers", len(all))
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", errors.New("not a bearer token")
	}
	return token, nil
}

// safe reduces the library's error, which may quote the token, to what failed.
func safe(err error) error {
	for _, known := range []error{
		jwt.ErrTokenExpired, jwt.ErrTokenNotValidYet, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenInvalidIssuer,
		jwt.ErrTokenInvalidAudience, jwt.ErrTokenRequiredClaimMissing, jwt.ErrTokenMalformed, jwt.ErrTokenUnverifiable,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New("token not valid")
}
