package server

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
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

// JWT says which tokens to trust. Exactly one of Secret and PublicKeys is set, and
// Issuer and Audience are: whoever else has a key of the same issuer's, or a token
// for another of its services, is nobody here.
type JWT struct {
	Secret []byte // HS256, at least 32 bytes
	// PublicKeys is PEM with one key or certificate or several, each of which
	// counts: RS256 for an RSA key, ES256 for one on P-256, EdDSA for Ed25519.
	PublicKeys  []byte
	Issuer      string        // "iss" must be it
	Audience    string        // "aud" must contain it
	MaxLifetime time.Duration // between "iat", or now, and "exp" at most; 0: 24 h
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
	if o.Issuer == "" || o.Audience == "" {
		return nil, errors.New("server: tokens need an issuer and an audience to be checked for")
	}
	setDefault(&o.MaxLifetime, 24*time.Hour)
	keys, err := o.keys()
	if err != nil {
		return nil, err
	}
	parser := jwt.NewParser(jwt.WithValidMethods(slices.Sorted(maps.Keys(keys))), jwt.WithExpirationRequired(), jwt.WithLeeway(clockSkew),
		jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience))
	// A key checks what its own algorithm has signed, and nothing else.
	keyOf := func(t *jwt.Token) (any, error) {
		if _, ok := t.Header["crit"]; ok { // extensions that must be understood: we know none
			return nil, errCritical
		}
		return jwt.VerificationKeySet{Keys: keys[t.Method.Alg()]}, nil
	}
	return func(r *http.Request) (Identity, error) {
		token, err := bearer(r.Header)
		if err != nil {
			return Identity{}, err
		}
		var claims jwt.RegisteredClaims
		if _, err := parser.ParseWithClaims(token, &claims, keyOf); err != nil {
			return Identity{}, safe(err)
		}
		now, expires := time.Now(), claims.ExpiresAt.Time
		longest := now.Add(o.MaxLifetime + clockSkew)
		if claims.IssuedAt != nil && claims.IssuedAt.Before(now) {
			longest = claims.IssuedAt.Add(o.MaxLifetime)
		}
		switch {
		case claims.Subject == "":
			return Identity{}, errors.New("token without sub")
		case !now.Before(expires):
			// The leeway is for tokens of an issuer whose clock is ahead. A stream
			// ends with its token, so there must be none for a new one.
			return Identity{}, jwt.ErrTokenExpired
		case expires.After(longest):
			return Identity{}, fmt.Errorf("token that lives longer than %s", o.MaxLifetime)
		}
		return Identity{Owner: claims.Subject, Expires: expires}, nil
	}, nil
}

var errCritical = errors.New("token with a crit header")

// keys are those to check tokens with, by algorithm.
func (o JWT) keys() (map[string][]jwt.VerificationKey, error) {
	switch {
	case len(o.Secret) > 0 && len(o.PublicKeys) > 0:
		return nil, errors.New("server: a JWT secret and a public key exclude each other")
	case len(o.Secret) >= minSecret:
		return map[string][]jwt.VerificationKey{"HS256": {o.Secret}}, nil
	case len(o.Secret) > 0:
		return nil, fmt.Errorf("server: a JWT secret needs at least %d bytes", minSecret)
	}
	keys := map[string][]jwt.VerificationKey{}
	found := 0
	for block, rest := pem.Decode(o.PublicKeys); block != nil; block, rest = pem.Decode(rest) {
		found++
		key, algorithm, err := publicKey(block)
		if err != nil {
			return nil, fmt.Errorf("server: JWT public key %d: %w", found, err)
		}
		keys[algorithm] = append(keys[algorithm], key)
	}
	// Decode passes over what it does not understand, and a key with it.
	if found == 0 || found != bytes.Count(o.PublicKeys, []byte("-----BEGIN ")) {
		return nil, errors.New("server: the JWT public keys are not PEM, or not all of them")
	}
	return keys, nil
}

// publicKey reads a key and says which algorithm it is for.
func publicKey(b *pem.Block) (key crypto.PublicKey, algorithm string, err error) {
	switch b.Type {
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(b.Bytes); err == nil {
			key = cert.PublicKey
		}
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(b.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(b.Bytes)
	default:
		err = fmt.Errorf("is a %s: want a PUBLIC KEY or a CERTIFICATE", b.Type)
	}
	if err != nil {
		return nil, "", err
	}
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return nil, "", fmt.Errorf("has fewer than %d bits", minRSA)
		}
		return k, "RS256", nil
	case *ecdsa.PublicKey:
		if k.Params().BitSize == 256 {
			return k, "ES256", nil
		}
	case ed25519.PublicKey:
		return k, "EdDSA", nil
	}
	return nil, "", errors.New("is none of RSA, P-256 and Ed25519")
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
		errCritical,
		jwt.ErrTokenExpired, jwt.ErrTokenNotValidYet, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenInvalidIssuer,
		jwt.ErrTokenInvalidAudience, jwt.ErrTokenRequiredClaimMissing, jwt.ErrTokenMalformed, jwt.ErrTokenUnverifiable,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New("token not valid")
}
