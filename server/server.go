// Package server is the product's HTTP face: requests in, status streams out.
//
// It knows no Redis and no Asynq. A request is decoded and authorized here and
// handed to the jobs; a status stream is a subscription of the events hub,
// written out. Whatever goes wrong becomes a response in one place, problem.go.
//
// # The files
//
//	server.go      the parts, put together
//	connections.go how many connections are open
//	serve.go       listeners, time limits, the way down
//	routes.go      every route of the API in one column
//	jobs.go        submit, document, retry, cancel, attempts
//	status.go      the status: where to resume, 204, JSON or a stream
//	stream.go      the registry of open streams and the reasons they end
//	feed.go        a subscription, rendered: the frames of one stream
//	probe.go       a stream about the way it takes
//	frames.go      frames to bytes
//	sse.go         a stream within its request's handler; the only file that knows r3labs/sse
//	parked*.go     a stream on a connection taken over from net/http
//	render.go      a transition as JSON, in the reader's language
//	texts.go       messages and locales
//	bodies.go      how long a body may take, and where there is none
//	decode.go      session ids, cursors, queries and bodies from outside
//	problem.go     an error as a response
//	middleware.go  request ids, logs, panics
//	origin.go      which pages and host names may call the API
//	auth.go        whom a request speaks for
//	metrics.go     what is counted
//	demo.go        the page that shows it all, in dev
//	outside.go     workers in other programs; what operators settle by hand
//	ops.go         health, readiness, metrics
//	login.go       the operators' login, and what slows down guesses
//	queues.go      the queue's web UI
//	admin.go       what operators change: retries, calls to a dependency
//	pages*.go      the operators' own pages, without scripts; pages has their files
//
// # A stream's life
//
// status.go finds out whom the caller speaks for and where to resume, takes an
// entry in the registry, subscribes, and opens the stream's line: its way to the
// reader. The entry is the stream's life: whoever wants the stream to end tells
// its line the reason (an ending). Everything a stream holds, its place under
// the limits, its log line and its metrics, is released when the entry is, and
// by nothing else: no middleware waits for the handler to return, because the
// stream outlives it.
//
// On HTTP/1.1 without TLS, which is what proxies speak to us, the line is parked:
// the connection is taken over, the handler returns, and what stays is a socket,
// a place in the log and a language. All other requests are served by their
// handlers.
//
// Nobody waits for a slow reader. What its socket does not take at once waits,
// bounded, and what comes meanwhile waits in the hub's bounded subscription; a
// frame that is not taken within WriteTimeout ends the stream. The client
// resumes from its cursor.
package server

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/locales"
)

// Jobs is what requests ask of the jobs. *jobs.Service is the one in
// production; the tests script one that refuses on demand.
type Jobs interface {
	Submit(ctx context.Context, r jobs.Submit) (jobs.Accepted, error)
	Retry(ctx context.Context, topic events.Topic) (jobs.Accepted, error)
	Cancel(ctx context.Context, topic events.Topic) (jobs.Accepted, error)
	Document(ctx context.Context, topic events.Topic) (jobs.Document, error)
	Attempts(ctx context.Context, topic events.Topic) (lifecycle.Ledger, error)
}

// Options are the parts and limits of a Server. Jobs, Hub and Texts are
// required; a zero limit means its default.
type Options struct {
	Jobs  Jobs
	Hub   *events.Hub
	Texts *locales.Catalog

	Logger  *slog.Logger         // nil: discards
	Metrics *prometheus.Registry // nil: one of its own

	// Auth tells whom a request speaks for. nil: authorization is off and
	// everybody is the one anonymous owner.
	Auth Auth
	// Origins are the web origins that may call the API from a browser, such
	// as "https://app.example.com". "*" means any.
	Origins []string
	// H2C speaks HTTP/2 without TLS too, for a proxy that does.
	H2C bool
	// Hosts are the names under which the API may be called while Auth is nil,
	// in lower case. IP addresses and localhost need no place here.
	Hosts []string
	// Dev accepts "simulate", serves the demo page, and opens the operators'
	// pages on loopback without a password.
	Dev bool

	Heartbeat    time.Duration // 15 s: a comment after this much silence
	MaxAge       time.Duration // 10 min, spread by 10 %: then a stream is closed
	WriteTimeout time.Duration // 2 s: for a reader to take what is written
	Drain        time.Duration // over which streams are closed at shutdown; 0: at once
	// OwnerSalt keys the hash that stands for an owner in keys and lists, so that
	// nobody finds out who it is by trying. "": an unkeyed hash.
	OwnerSalt string
	// Warning is what /readyz tells operators besides, "" when all is well. nil: nothing.
	Warning func(context.Context) string
	// Files is how many files the process may have open: the API's connections stay
	// below it. 0: unknown, they are not bounded.
	Files int
	// StreamLimit bounds the open streams of this process, OwnerStreamLimit
	// those of one owner (never those of the anonymous one).
	StreamLimit      int // 50,000
	OwnerStreamLimit int // 200

	// Outside serves workers in other programs. nil: not served.
	Outside Outside
	// WorkerToken is what they show. Without one they are served in Dev alone,
	// and on this machine alone.
	WorkerToken string

	// Operators is what operators see and do besides. nil: not served.
	Operators Operators

	// Queues is the queue's web UI, made for the root path /queues; whether it
	// is read-only is its own matter. nil: not served.
	Queues http.Handler
	// AdminPassword opens the operators' pages to the user "admin". At least
	// MinPassword characters; "": they are served in Dev alone, on this machine alone.
	AdminPassword string
	// DevModelCalls counts the calls of the simulated model; served in Dev only.
	DevModelCalls func(events.Topic) int
}

// Server serves the API and the operators' pages.
type Server struct {
	o       Options
	log     *slog.Logger
	metrics *metrics
	render  *renderer
	streams *streams
	probes  *probes
	emitter *emitter
	parking *parking
	texts   *textBook
	ready   *readiness
	guesses *guesses
	pages   *template.Template
	// delivery has one of the metrics alone, for the operators' page.
	delivery *prometheus.Registry
	open     bool                // without authorization
	decoding *semaphore.Weighted // bytes of bodies
	api      http.Handler
	ops      http.Handler
	// leaving ends when the process goes down, and with it every wait of a worker.
	leaving context.Context
	leave   context.CancelFunc
	// closing ends when the streams are closed and only requests are left.
	closing context.Context
	closed  context.CancelFunc
}

// New puts a Server together. It starts nothing; Serve does.
func New(o Options) (*Server, error) {
	if o.Jobs == nil || o.Hub == nil || o.Texts == nil {
		return nil, errors.New("server: Jobs, Hub and Texts are required")
	}
	if o.AdminPassword != "" && len(o.AdminPassword) < MinPassword {
		return nil, fmt.Errorf("server: the operators' password needs at least %d characters", MinPassword)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	open := o.Auth == nil
	if open {
		o.Auth = Anonymous
	}
	setDefault(&o.Heartbeat, 15*time.Second)
	setDefault(&o.MaxAge, 10*time.Minute)
	setDefault(&o.WriteTimeout, 2*time.Second)
	setDefault(&o.StreamLimit, 50_000)
	setDefault(&o.OwnerStreamLimit, 200)

	s := &Server{o: o, log: o.Logger, open: open}
	s.leaving, s.leave = context.WithCancel(context.Background())
	s.closing, s.closed = context.WithCancel(context.Background())
	var err error
	if s.metrics, err = newMetrics(o.Metrics); err != nil {
		return nil, err
	}
	if s.texts, err = newTextBook(o.Texts); err != nil {
		return nil, err
	}
	if s.pages, err = parsePages(); err != nil {
		return nil, err
	}
	s.delivery = prometheus.NewRegistry()
	if err := s.delivery.Register(s.metrics.delivery); err != nil {
		return nil, err
	}
	s.render = newRenderer(o.Texts, o.Hub.Now)
	if limit := s.apiConnections(); int64(o.StreamLimit) > limit {
		s.log.Warn("not all streams fit into the limit of open files: raise it, or lower TIDINGS_STREAM_LIMIT",
			"open_files", o.Files, "connections", limit, "stream_limit", o.StreamLimit)
	}
	s.streams = newStreams(o.StreamLimit, o.OwnerStreamLimit, o.MaxAge, s.metrics, s.streamEnded)
	s.probes = newProbes()
	s.guesses = newGuesses()
	s.decoding = semaphore.NewWeighted(decodedAtOnce)
	s.emitter = newEmitter(o.Logger, o.Heartbeat, o.WriteTimeout)
	s.parking = newParking(o.Logger, o.Heartbeat, o.WriteTimeout)
	s.ready = &readiness{probe: o.Hub.Probe, draining: s.streams.draining, warning: o.Warning}
	gin.SetMode(gin.ReleaseMode) // gin's own global: keeps it from printing routes to stdout
	if s.api, err = s.routes(); err != nil {
		return nil, err
	}
	s.ops = s.opsRoutes()
	return s, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// API is the public handler.
func (s *Server) API() http.Handler { return s.api }

// Ops is the operators' handler. It belongs on a port of its own that is never
// public.
func (s *Server) Ops() http.Handler { return s.ops }
