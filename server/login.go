package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"sync"
	"time"
)

// MinPassword is how many characters the operators' password has at least.
const MinPassword = 16

// operator is who has logged in, and from where.
type operator struct{ login, from string }

type operatorKey struct{}

// operatorOf is the operator that login let in.
func operatorOf(ctx context.Context) operator {
	o, _ := ctx.Value(operatorKey{}).(operator)
	return o
}

// admin lets operators in, and writes a log line of whatever they may have changed.
func (s *Server) admin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := s.login(w, r)
		if !ok {
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), operatorKey{}, who))
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		s.log.LogAttrs(r.Context(), slog.LevelInfo, "an operator's request", slog.String("method", method(r.Method)),
			slog.String("path", path.Clean(r.URL.Path)), slog.Int("status", answer.status),
			slog.String("login", who.login), slog.String("from", who.from))
	})
}

// login knows the user "admin" by the password. In dev, without one, it takes
// whoever sits at this machine. Otherwise there is nothing here.
func (s *Server) login(w http.ResponseWriter, r *http.Request) (operator, bool) {
	from := addressOf(r)
	if s.o.AdminPassword == "" {
		if s.o.Dev && loopback(r) {
			return operator{"dev", from}, true
		}
		plain(w, http.StatusNotFound, "Not served without a password: set TIDINGS_ADMIN_PASSWORD.\n")
		return operator{}, false
	}
	user, password, given := r.BasicAuth()
	right, wait := false, time.Duration(0)
	if given {
		right, wait = s.guesses.try(from, func() bool {
			want, got := sha256.Sum256([]byte(s.o.AdminPassword)), sha256.Sum256([]byte(password))
			return subtle.ConstantTimeCompare([]byte(user), []byte("admin"))&subtle.ConstantTimeCompare(got[:], want[:]) == 1
		})
	}
	switch {
	case right:
		return operator{user, from}, true
	case wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(wholeSeconds(wait)))
		plain(w, http.StatusTooManyRequests, "Too many wrong passwords came from this address. Wait, then try again.\n")
		return operator{}, false
	case given:
		s.log.Warn("refused an operator's login", "from", from)
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="tidings operators", charset="UTF-8"`)
	plain(w, http.StatusUnauthorized, "Sign in as the user admin.\n")
	return operator{}, false
}

// addressOf is the peer's address. What a proxy says of whom it speaks for is
// anybody's word.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

const (
	firstPause   = time.Second
	longestPause = time.Minute
	forgetAfter  = 15 * time.Minute // without a wrong guess
	maxGuessers  = 10_000           // addresses with a pause of their own
)

// guesses slows down whoever guesses: after each wrong one its address must wait,
// each time twice as long. Meanwhile nothing from there is looked at, the right
// password neither, or guesses would cost nothing.
type guesses struct {
	mu    sync.Mutex
	by    map[string]*guesser
	swept time.Time
}

type guesser struct {
	wrong       int
	last, until time.Time
}

func newGuesses() *guesses { return &guesses{by: map[string]*guesser{}} }

// try tells whether a guess is right, or how long its address has still to wait.
func (g *guesses) try(from string, right func() bool) (ok bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, key := time.Now(), g.key(from)
	by := g.by[key]
	if by == nil {
		by = &guesser{}
	}
	if wait := by.until.Sub(now); wait > 0 {
		return false, wait
	}
	if right() {
		return true, 0
	}
	if now.Sub(by.last) > forgetAfter {
		by.wrong = 0
	}
	by.last, by.until = now, now.Add(min(firstPause<<min(by.wrong, 10), longestPause))
	by.wrong++
	g.by[key] = by
	return false, 0
}

// key is what an address is known by: itself, or for IPv6 its network, of which
// one host may have as many addresses as it likes. When too many are known, all
// further ones share a key, so that memory has a bound and numbers do not help.
func (g *guesses) key(from string) string {
	if ip, err := netip.ParseAddr(from); err == nil && ip.Is6() && !ip.Is4In6() {
		if network, err := ip.WithZone("").Prefix(64); err == nil {
			from = network.String()
		}
	}
	now := time.Now()
	if g.by[from] != nil || len(g.by) < maxGuessers {
		return from
	}
	if now.Sub(g.swept) >= time.Second {
		g.swept = now
		maps.DeleteFunc(g.by, func(_ string, by *guesser) bool { return now.Sub(by.last) > forgetAfter })
	}
	if len(g.by) < maxGuessers {
		return from
	}
	return "others"
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// loopback tells whether a request comes from this machine and was meant for
// it: a page elsewhere can point a name of its own at 127.0.0.1, and a proxy on
// this machine speaks for others. A proxy says so in a header, or speaks HTTP/1.0
// as nginx does unless told otherwise.
func loopback(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Forwarded-Server", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Cf-Ray", "X-Original-Host"} {
		if len(r.Header.Values(name)) > 0 {
			return false
		}
	}
	named := hostname(r.Host)
	from, to := net.ParseIP(addressOf(r)), net.ParseIP(named)
	return r.ProtoAtLeast(1, 1) && from != nil && from.IsLoopback() && (named == "localhost" || to != nil && to.IsLoopback())
}
