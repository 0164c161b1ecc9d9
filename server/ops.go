package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

const probeTimeout = 3 * time.Second

// opsRoutes is everything for operators. Probes and metrics are open, because
// the port is not public; what shows or changes work is behind the login.
func (s *Server) opsRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.o.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ops", http.StatusSeeOther) })
	if s.o.Operators != nil {
		mux.Handle("/ops", s.admin(s.pageRoutes()))
		mux.Handle("/ops/", s.admin(s.pageRoutes()))
	}
	mux.Handle("/queues", s.admin(s.queues()))
	mux.Handle("/queues/", s.admin(s.queues()))
	mux.Handle("/admin/", s.admin(s.adminRoutes()))
	mux.Handle("GET /debug/pprof/", s.admin(http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/profile", s.admin(http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/trace", s.admin(http.HandlerFunc(pprof.Trace)))
	mux.Handle("GET /debug/pprof/symbol", s.admin(http.HandlerFunc(pprof.Symbol)))
	if s.o.Dev && s.o.DevModelCalls != nil {
		mux.HandleFunc("GET /dev/model/calls", s.devModelCalls)
	}
	return opsHeaders(http.NewCrossOriginProtection().Handler(mux))
}

func opsHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		if !carriesBody(r.Method) && hasBody(r) {
			plain(w, http.StatusBadRequest, "This request takes no body.\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // a probe that went away
}

// readiness decides whether a balancer should send clients here.
type readiness struct {
	probe    func(context.Context) error // a message from publishing to delivery
	draining func() bool
	warning  func(context.Context) string // may be nil

	mu     sync.Mutex
	asked  time.Time
	last   string
	warned string
}

// The states of readiness, as /readyz says them.
const (
	stateReady    = "ready"
	stateDegraded = "degraded" // the storage is away: clients get our own 503, not the balancer's
	stateDeaf     = "not_delivering"
	stateDraining = "draining"
)

// state asks at most once in a second, however many probes there are.
func (r *readiness) state(ctx context.Context) string {
	if r.draining() {
		return stateDraining
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < time.Second {
		return r.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	r.last, r.warned = r.ask(ctx), ""
	if r.warning != nil && r.last == stateReady {
		r.warned = r.warning(ctx)
	}
	r.asked = time.Now()
	return r.last
}

// warnedOf is the warning of the last question.
func (r *readiness) warnedOf() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.warned
}

func (r *readiness) ask(ctx context.Context) string {
	err := r.probe(ctx)
	switch {
	case err == nil:
		return stateReady
	case errors.Is(err, events.ErrUnavailable):
		return stateDegraded
	}
	return stateDeaf
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	state := s.ready.state(r.Context())
	status := http.StatusOK
	if state == stateDeaf || state == stateDraining {
		status = http.StatusServiceUnavailable
	}
	said := map[string]string{"status": state}
	if state == stateReady {
		if w := s.ready.warnedOf(); w != "" {
			said["warning"] = w
		}
	}
	b, err := encode(said)
	if err != nil { // strings always encode
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a probe that went away
}

// devModelCalls tells how many calls the simulated model has received.
func (s *Server) devModelCalls(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	workload := q.Get("workload")
	if workload == "" {
		workload = "summary"
	}
	if _, ok := jobs.WorkloadNamed(workload); !ok || !validSession(q.Get("session_id")) {
		plain(w, http.StatusBadRequest, "give session_id, and workload unless it is summary\n")
		return
	}
	b, err := encode(map[string]int{"calls": s.o.DevModelCalls(s.topicFor(q.Get("owner"), q.Get("session_id"), workload))})
	if err != nil { // numbers always encode
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n')) // a reader that went away
}
