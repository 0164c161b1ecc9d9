package server

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

func secret() []byte { return []byte(strings.Repeat("k", 32)) }

// token signs claims; sub, exp and so on as pairs. iss and aud are ours unless
// given; nil leaves one away.
func token(t *testing.T, method jwt.SigningMethod, key any, given jwt.MapClaims) string {
	t.Helper()
	claims := jwt.MapClaims{"iss": "us", "aud": "tidings"}
	for name, value := range given {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	s, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ours are an issuer's tokens for us.
func ours(o JWT) JWT {
	o.Issuer, o.Audience = "us", "tidings"
	return o
}

func withJWT(o JWT) func(*Options) {
	return func(options *Options) {
		auth, err := NewJWT(ours(o))
		if err != nil {
			panic(err)
		}
		options.Auth = auth
	}
}

func in(d time.Duration) int64 { return time.Now().Add(d).Unix() }

func TestTokens(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	inTestbed(t, func(t *testing.T, h *testbed) {
		good := token(t, jwt.SigningMethodHS256, secret(), jwt.MapClaims{"sub": "anna", "exp": in(time.Hour)})
		with := func(change jwt.MapClaims) string {
			claims := jwt.MapClaims{"sub": "anna", "exp": in(time.Hour)}
			maps.Copy(claims, change)
			return token(t, jwt.SigningMethodHS256, secret(), claims)
		}
		critical := func(names any) string {
			tok := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "anna", "exp": in(time.Hour), "iss": "us", "aud": "tidings"})
			tok.Header["crit"] = names
			signed, err := tok.SignedString(secret())
			if err != nil {
				t.Fatal(err)
			}
			return signed
		}
		for name, c := range map[string]struct {
			headers []string
			want    int
		}{
			"good":              {[]string{"Authorization: Bearer " + good}, 200},
			"lower case":        {[]string{"Authorization: bearer  " + good}, 200},
			"none":              {nil, 401},
			"another scheme":    {[]string{"Authorization: Basic " + good}, 401},
			"two headers":       {[]string{"Authorization: Bearer " + good, "Authorization: Bearer " + good}, 401},
			"empty":             {[]string{"Authorization: Bearer "}, 401},
			"words":             {[]string{"Authorization: Bearer a b c"}, 401},
			"a changed one":     {[]string{"Authorization: Bearer " + good[:len(good)-4] + "AAAA"}, 401},
			"expired":           {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"exp": in(-time.Minute)})}, 401},
			"just expired":      {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"exp": in(0)})}, 401},
			"a clock ahead":     {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"nbf": in(10 * time.Second)})}, 200},
			"without end":       {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"exp": nil})}, 401},
			"without owner":     {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"sub": nil})}, 401},
			"not yet":           {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"nbf": in(time.Hour)})}, 401},
			"another issuer":    {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"iss": "them"})}, 401},
			"another audience":  {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"aud": "others"})}, 401},
			"no issuer":         {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"iss": nil})}, 401},
			"no audience":       {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"aud": nil})}, 401},
			"several audiences": {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"aud": []string{"others", "tidings"}})}, 200},
			"an extension":      {[]string{"Authorization: Bearer " + critical([]string{"http://example.com/x"})}, 401},
			"an empty crit":     {[]string{"Authorization: Bearer " + critical([]string{})}, 401},
			"a null crit":       {[]string{"Authorization: Bearer " + critical(nil)}, 401},
			"for a day":         {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"iat": in(0), "exp": in(24 * time.Hour)})}, 200},
			"for longer":        {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"iat": in(0), "exp": in(25 * time.Hour)})}, 401},
			"for ages":          {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"exp": in(10 * 365 * 24 * time.Hour)})}, 401},
			"the end of ages":   {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"iat": in(-365 * 24 * time.Hour)})}, 401},
			"issued in ages":    {[]string{"Authorization: Bearer " + with(jwt.MapClaims{"iat": in(365 * 24 * time.Hour), "exp": in(366 * 24 * time.Hour)})}, 401},
			"another key":       {[]string{"Authorization: Bearer " + token(t, jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), jwt.MapClaims{"sub": "anna", "exp": in(time.Hour)})}, 401},
			"another algorithm": {[]string{"Authorization: Bearer " + token(t, jwt.SigningMethodES256, ec, jwt.MapClaims{"sub": "anna", "exp": in(time.Hour)})}, 401},
			"unsigned":          {[]string{"Authorization: Bearer " + token(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"sub": "anna", "exp": in(time.Hour)})}, 401},
		} {
			a := h.do(t, http.MethodGet, statusPath+"?format=json", "", append(c.headers, "Accept-Language: nb")...)
			challenge := a.header.Get("WWW-Authenticate")
			if a.status != c.want || c.want == 401 && (!strings.HasPrefix(challenge, "Bearer ") || a.json(t)["code"] != "unauthorized" || a.header.Get("Content-Language") != "nb") {
				t.Errorf("%s: %d, %q, %s", name, a.status, challenge, a.body)
			}
		}
		// I-39: an address is no place for a token.
		if a := h.do(t, http.MethodGet, statusPath+"?format=json&token="+good+"&access_token="+good, ""); a.status != 401 {
			t.Errorf("a token in the address: %d", a.status)
		}
		// Texts are there before anybody has signed in.
		if a := h.do(t, http.MethodGet, "/api/v1/messages", ""); a.status != 200 {
			t.Errorf("texts without a token: %d", a.status)
		}
	}, withJWT(JWT{Secret: secret()}))
}

func TestPublicKeys(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	big, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public := func(key any) []byte {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	claims := jwt.MapClaims{"sub": "anna", "exp": in(time.Hour)}
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	older, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pem    []byte
		tokens map[string]bool
	}{
		"EdDSA": {public(edPublic), map[string]bool{
			token(t, jwt.SigningMethodEdDSA, ed, claims): true, token(t, jwt.SigningMethodES256, ec, claims): false,
			token(t, jwt.SigningMethodHS256, []byte(edPublic), claims): false,
		}},
		// While keys are rotated there are several.
		"all of a file": {slices.Concat([]byte("\n"), public(&older.PublicKey), public(&ec.PublicKey), []byte("\r\n"), public(edPublic), public(&rs.PublicKey)), map[string]bool{
			token(t, jwt.SigningMethodES256, older, claims): true, token(t, jwt.SigningMethodES256, ec, claims): true,
			token(t, jwt.SigningMethodEdDSA, ed, claims): true, token(t, jwt.SigningMethodRS256, rs, claims): true,
			token(t, jwt.SigningMethodPS256, rs, claims): false, token(t, jwt.SigningMethodHS256, public(&ec.PublicKey), claims): false,
		}},
		"ES256": {public(&ec.PublicKey), map[string]bool{
			token(t, jwt.SigningMethodES256, ec, claims): true, token(t, jwt.SigningMethodRS256, rs, claims): false,
			// The oldest trick: the public key as if it were a secret.
			token(t, jwt.SigningMethodHS256, public(&ec.PublicKey), claims): false,
		}},
		"RS256": {public(&rs.PublicKey), map[string]bool{
			token(t, jwt.SigningMethodRS256, rs, claims): true, token(t, jwt.SigningMethodES256, ec, claims): false,
			token(t, jwt.SigningMethodRS512, rs, claims): false,
		}},
	} {
		auth, err := NewJWT(ours(JWT{PublicKeys: c.pem}))
		if err != nil {
			t.Fatal(err)
		}
		for tok, ok := range c.tokens {
			who, err := auth(request(t, "GET", "http://api/", "", "Authorization: Bearer "+tok))
			if (err == nil) != ok || ok && who.Owner != "anna" {
				t.Errorf("%s: %v, %+v; want ok %v", name, err, who, ok)
			}
			if err != nil && strings.Contains(err.Error(), tok[:20]) {
				t.Errorf("%s: the error quotes the token: %v", name, err)
			}
		}
	}
	for name, o := range map[string]JWT{
		"nothing":         {},
		"both":            {Secret: secret(), PublicKeys: public(&ec.PublicKey)},
		"short secret":    {Secret: secret()[:31]},
		"not PEM":         {PublicKeys: []byte("hello")},
		"P-384":           {PublicKeys: public(&big.PublicKey)},
		"a private key":   {PublicKeys: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})},
		"a broken second": {PublicKeys: append(public(&ec.PublicKey), "-----BEGIN PUBLIC KEY-----\nx"...)},
		"not a key":       {PublicKeys: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})},
	} {
		if _, err := NewJWT(ours(o)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for name, o := range map[string]JWT{"no issuer": {Secret: secret(), Audience: "a"}, "no audience": {Secret: secret(), Issuer: "i"}} {
		if _, err := NewJWT(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestAnotherOwnersSessionIsLikeOneThatNeverWas(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		as := func(who string) string {
			return "Authorization: Bearer " + token(t, jwt.SigningMethodHS256, secret(), jwt.MapClaims{"sub": who, "exp": in(time.Hour)})
		}
		h.happenAll(t, events.NewTopic("anna", session, "summary"), queued(), processing(1, 1), completed(1))
		if a := h.do(t, "GET", statusPath+"?format=json", "", as("anna")); a.json(t)["event"] != "completed" {
			t.Errorf("her own: %s", a.body)
		}
		theirs := h.do(t, "GET", statusPath+"?format=json", "", as("bo"))
		never := h.do(t, "GET", strings.ReplaceAll(statusPath, session, "abc-124")+"?format=json", "", as("bo"))
		if got := strings.ReplaceAll(string(theirs.body), session, "abc-124"); got != string(never.body) || theirs.json(t)["event"] != "idle" {
			t.Errorf("hers as another:\n%s\none that never was:\n%s", theirs.body, never.body)
		}
		h.open(t, statusPath, as("bo")).want(t, "idle")
		list := h.do(t, "GET", "/api/v1/status?sessions="+session, "", as("bo"))
		if strings.Contains(string(list.body), "completed") {
			t.Errorf("list: %s", list.body)
		}
		// The jobs are asked about the owner's own topic only.
		h.jobs.err = &jobs.Refusal{Code: jobs.CodeNotFound}
		for _, c := range [][2]string{{"POST", "/retry"}, {"DELETE", "/job"}, {"GET", ""}, {"GET", "/attempts"}} {
			if a := h.do(t, c[0], documentPath+c[1], "", as("bo")); a.status != 404 {
				t.Errorf("%v: %d", c, a.status)
			}
		}
		for _, topic := range h.jobs.topics {
			if topic != events.NewTopic("bo", session, "summary") {
				t.Errorf("asked about %v", topic)
			}
		}
	}, withJWT(JWT{Secret: secret()}))
}

func TestAStreamEndsWithItsToken(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		tok := token(t, jwt.SigningMethodHS256, secret(), jwt.MapClaims{"sub": "anna", "exp": in(60 * time.Second)})
		r := h.open(t, statusPath, "Authorization: Bearer "+tok)
		r.want(t, "idle")
		start := time.Now()
		if m := r.next(); !errors.Is(m.err, io.EOF) || time.Since(start) != 60*time.Second {
			t.Errorf("ended with %v after %v", m.err, time.Since(start))
		}
		if !strings.HasSuffix(r.raw.String(), ": token_expired\n") {
			t.Errorf("without a reason: %q", r.raw.String())
		}
		synctest.Wait()
		if n := h.openNow(); n != 0 {
			t.Errorf("%d streams are still registered", n)
		}
	}, withJWT(JWT{Secret: secret()}))
}
