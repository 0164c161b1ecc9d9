package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
)

// Operators is what operators ask of the jobs. *jobs.Operators is the one in
// production.
type Operators interface {
	// Dependency is the model that this process works with.
	Dependency() string
	// Bounds are the gate's settings of this process.
	Bounds() gate.Settings
	SwitchRetries(ctx context.Context, off bool, s gate.Scope, order gate.Order) error
	Switches(ctx context.Context) (gate.Switches, error)
	// OrderCalls carries out pause, resume or probe.
	OrderCalls(ctx context.Context, verb, dependency string, order gate.Order) error
	// Deadline is how long the shortest of jobs may take.
	Deadline() time.Duration
	Inspect(ctx context.Context, dependency string) (gate.State, error)
	Measured(ctx context.Context, window time.Duration) (jobs.Cohorts, error)
	Depths(ctx context.Context) ([]jobs.Depth, error)
	Open(ctx context.Context, most int) (jobs.Open, error)
	Find(ctx context.Context, id string) (topic events.Topic, job string, err error)
	Overview(ctx context.Context, t events.Topic) (jobs.Overview, error)
}

// An operator's order, as the gate takes it.
const (
	maxOwner      = 200
	maxNote       = 500
	maxOrder      = 7 * 24 * time.Hour
	maxDependency = 200
)

// adminRoutes are what operators may change, below /admin/ on their own port.
// Its answers are made as those of the API are; the login stands in front.
func (s *Server) adminRoutes() http.Handler {
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	_ = e.SetTrustedProxies(nil)
	e.Use(s.observe, s.recovered, s.bodyByMethod)
	e.NoRoute(func(c *gin.Context) { s.fail(c, &problem{code: codeNotFound}) })
	e.NoMethod(s.noMethod)
	outside := e.Group("/admin/jobs/:job_id", s.hasOutside)
	outside.POST("/attempts/:attempt/fail", s.failAttempt)
	outside.POST("/resolve", s.resolve)
	if s.o.Operators != nil {
		own := e.Group("", s.hurry)
		own.GET("/admin/retries", s.retries)
		own.PUT("/admin/retries", s.switchRetries)
		own.GET("/admin/measures", s.measures)
		own.GET("/admin/dependencies", s.dependencies)
		// A dependency has slashes in its name, so what is wanted of it comes last.
		own.GET("/admin/dependencies/*dependency", s.dependency)
		own.PUT("/admin/dependencies/*dependency", s.orderCalls)
	}
	return e
}

// retries tells what is switched off, and the audit trail.
func (s *Server) retries(c *gin.Context) {
	sw, err := s.o.Operators.Switches(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	s.json(c, http.StatusOK, retriesJSON{Off: orders(sw.Off), Audit: orders(sw.Audit)})
}

// switchRetries turns retries off for a time, or on again.
func (s *Server) switchRetries(c *gin.Context) {
	var set, length string
	var dependency, workload *string
	var scope gate.Scope
	var order gate.Order
	err := s.fields(c, map[string]any{"retries": &set, "dependency": &dependency, "workload": &workload,
		"owner": &order.Owner, "note": &order.Note, "for": &length})
	if err == nil {
		err = errors.Join(named("dependency", dependency, &scope.Dependency), named("workload", workload, &scope.Workload))
	}
	if err == nil {
		err = s.switchOrder(c.Request.Context(), set, scope, order, length)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.retries(c)
}

// named takes a name if one was given. An empty one, as of a variable that a
// script has not set, must not be taken for everything.
func named(field string, name, into *string) error {
	switch {
	case name == nil:
	case *name == "":
		return invalid(field, "empty; omit it to mean all retries")
	default:
		*into = *name
	}
	return nil
}

// switchOrder checks an order about retries and carries it out.
func (s *Server) switchOrder(ctx context.Context, set string, scope gate.Scope, order gate.Order, length string) error {
	_, known := jobs.WorkloadNamed(scope.Workload)
	switch {
	case set != "off" && set != "on":
		return invalid("retries", "off or on")
	case scope.Dependency != "" && scope.Workload != "":
		return invalid("workload", "give a dependency or a workload, not both")
	case scope.Dependency != "" && !validDependency(scope.Dependency):
		return invalid("dependency", dependencyHint)
	case scope.Workload != "" && !known:
		return invalid("workload", "there is no such workload")
	}
	if err := s.order(ctx, &order, set == "off", length); err != nil {
		return err
	}
	return s.o.Operators.SwitchRetries(ctx, set == "off", scope, order)
}

// order checks an order, notes who gives it, and gives it its end, by the
// storage's clock.
func (s *Server) order(ctx context.Context, o *gate.Order, begins bool, length string) error {
	who := operatorOf(ctx)
	o.Login, o.From = who.login, who.from
	o.Owner, o.Note = strings.TrimSpace(o.Owner), strings.TrimSpace(o.Note)
	switch {
	case o.Owner == "" || len(o.Owner) > maxOwner:
		return invalid("owner", "who wants this: 1 to 200 bytes")
	case len(o.Note) > maxNote:
		return invalid("note", "at most 500 bytes")
	case !begins && length != "":
		return invalid("for", "only what begins has an end")
	case !begins:
		return nil
	}
	d, ok := span(length)
	if !ok {
		return invalid("for", "from 1s to 7d, such as 30m or 2h")
	}
	o.Until = s.o.Hub.Now().Add(d).UTC().Truncate(time.Second)
	return nil
}

// span reads how long an order holds.
func span(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 8)
		d = time.Duration(n) * 24 * time.Hour
	}
	return d, err == nil && d >= time.Second && d <= maxOrder
}

const dependencyHint = "1 to 200 visible ASCII characters without braces, such as openai/NAME"

func validDependency(name string) bool {
	return name != "" && len(name) <= maxDependency && only(name, func(b byte) bool { return b > ' ' && b <= '~' && b != '{' && b != '}' })
}

// dependencies shows the gate of the one dependency that this process has.
func (s *Server) dependencies(c *gin.Context) {
	name := s.o.Operators.Dependency()
	state, err := s.o.Operators.Inspect(c.Request.Context(), name)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.json(c, http.StatusOK, map[string]any{"dependencies": []stateJSON{s.stateOf(name, state)}})
}

// dependency shows the gate of any.
func (s *Server) dependency(c *gin.Context) {
	name := strings.TrimPrefix(c.Param("dependency"), "/")
	if !validDependency(name) {
		s.fail(c, &problem{code: codeNotFound})
		return
	}
	s.showDependency(c, name)
}

func (s *Server) showDependency(c *gin.Context, name string) {
	state, err := s.o.Operators.Inspect(c.Request.Context(), name)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.json(c, http.StatusOK, s.stateOf(name, state))
}

// orderCalls makes all calls to a dependency wait, ends that, or tests it now.
func (s *Server) orderCalls(c *gin.Context) {
	path := c.Param("dependency")
	cut := strings.LastIndexByte(path, '/')
	name, verb := strings.TrimPrefix(path[:cut], "/"), path[cut+1:]
	if !callsVerb(verb) || !validDependency(name) {
		s.fail(c, &problem{code: codeNotFound})
		return
	}
	var order gate.Order
	var length string
	err := s.fields(c, map[string]any{"owner": &order.Owner, "note": &order.Note, "for": &length})
	if err == nil {
		err = s.callsOrder(c.Request.Context(), verb, name, order, length)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.showDependency(c, name)
}

func callsVerb(verb string) bool { return verb == "pause" || verb == "resume" || verb == "probe" }

// callsOrder checks an order about a dependency and carries it out.
func (s *Server) callsOrder(ctx context.Context, verb, name string, order gate.Order, length string) error {
	if err := s.order(ctx, &order, verb == "pause", length); err != nil {
		return err
	}
	return s.o.Operators.OrderCalls(ctx, verb, name, order)
}

// windows are those that measures can be asked for.
func windows() map[string]time.Duration {
	return map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}
}

// measures tells what became of the jobs that were offered in a window.
func (s *Server) measures(c *gin.Context) {
	window, ok := windows()[c.DefaultQuery("window", "1h")]
	if !ok {
		s.fail(c, &problem{code: codeInvalidQuery, field: "window", hint: "1h, 24h or 7d"})
		return
	}
	m, err := s.o.Operators.Measured(c.Request.Context(), window)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.json(c, http.StatusOK, measuresJSON{From: stamp{m.From}, To: stamp{m.To}, All: m.All, Workloads: m.Workloads})
}

// The answers on the wire.
type (
	measuresJSON struct {
		From      stamp                    `json:"from"`
		To        stamp                    `json:"to"`
		All       jobs.Measured            `json:"all"`
		Workloads map[string]jobs.Measured `json:"workloads"`
	}
	orderJSON struct {
		At         *stamp `json:"at,omitempty"`     // in the audit
		Action     string `json:"action,omitempty"` // in the audit
		Scope      string `json:"scope"`            // all, dependency, workload
		Dependency string `json:"dependency,omitempty"`
		Workload   string `json:"workload,omitempty"`
		Owner      string `json:"owner"`
		Note       string `json:"note"`
		Login      string `json:"login,omitempty"` // who logged in to give it
		From       string `json:"from,omitempty"`  // and the address
		Until      *stamp `json:"until"`           // null: it ended something
	}
	retriesJSON struct {
		Off   []orderJSON `json:"off"`   // in force now
		Audit []orderJSON `json:"audit"` // the last 100 orders, newest first
	}
	stateJSON struct {
		Dependency        string       `json:"dependency"`
		UsedHere          bool         `json:"used_here"` // by the process that answers
		At                stamp        `json:"at"`
		Breaker           string       `json:"breaker"` // closed, open, half_open
		OpenUntil         *stamp       `json:"open_until"`
		Openings          int          `json:"openings"` // since it was last closed
		ProbesRunning     int          `json:"probes_running"`
		ProbesGood        int          `json:"probes_good"`
		WindowCalls       int          `json:"window_calls"`
		WindowBad         int          `json:"window_bad"`
		Limit             float64      `json:"limit"`
		InUse             int          `json:"in_use"`
		RetryTokens       float64      `json:"retry_tokens"`
		RetryAvailableAt  *stamp       `json:"retry_available_at"`
		ManualTokens      float64      `json:"manual_tokens"`
		ManualAvailableAt *stamp       `json:"manual_available_at"`
		HeldUntil         *stamp       `json:"held_until"`        // null: the provider asks for no wait
		PausedUntil       *stamp       `json:"paused_until"`      // null: not paused
		OutlastsDeadline  bool         `json:"outlasts_deadline"` // that pause or wait does, of a job that is submitted now
		PauseOwner        string       `json:"pause_owner,omitempty"`
		PauseNote         string       `json:"pause_note,omitempty"`
		Holders           []holderJSON `json:"holders"` // at most 100
		Audit             []orderJSON  `json:"audit"`
	}
	holderJSON struct {
		JobID     string `json:"job_id"`
		Workload  string `json:"workload"`
		Kind      string `json:"kind"` // first, retry, manual
		Since     stamp  `json:"since"`
		ExpiresAt stamp  `json:"expires_at"`
	}
)

func orders(all []gate.Record) []orderJSON {
	list := make([]orderJSON, len(all))
	for i, r := range all {
		list[i] = orderJSON{At: optional(r.At), Action: r.Action, Scope: scopeOf(r.Scope), Dependency: r.Dependency, Workload: r.Workload,
			Owner: r.Owner, Note: r.Note, Login: r.Login, From: r.From, Until: optional(r.Until)}
		if r.At.IsZero() { // what is in force is off, as its list says
			list[i].Action = ""
		}
	}
	return list
}

func scopeOf(s gate.Scope) string {
	switch {
	case s.Dependency != "":
		return "dependency"
	case s.Workload != "":
		return "workload"
	}
	return "all"
}

// outlasts tells whether calls wait for longer than a job that is submitted now may.
func (s *Server) outlasts(g gate.State) bool {
	return g.ClosedUntil().Sub(g.At) > s.o.Operators.Deadline()
}

func (s *Server) stateOf(name string, g gate.State) stateJSON {
	j := stateJSON{Dependency: name, UsedHere: name == s.o.Operators.Dependency(), At: stamp{g.At}, Breaker: g.Breaker,
		OpenUntil: optional(g.OpenUntil), Openings: g.Trips, ProbesRunning: g.ProbesOut, ProbesGood: g.ProbesGood,
		WindowCalls: g.Calls, WindowBad: g.Bad, Limit: g.Limit, InUse: g.InUse,
		RetryTokens: g.RetryTokens, RetryAvailableAt: optional(g.RetryAvailableAt),
		ManualTokens: g.ManualTokens, ManualAvailableAt: optional(g.ManualAvailableAt),
		HeldUntil: optional(g.HeldUntil), PausedUntil: optional(g.PausedUntil),
		OutlastsDeadline: s.outlasts(g), PauseOwner: g.PauseOwner, PauseNote: g.PauseNote,
		Holders: make([]holderJSON, len(g.Holders)), Audit: orders(g.Audit)}
	for i, h := range g.Holders {
		j.Holders[i] = holderJSON{JobID: h.JobID, Workload: h.Workload, Kind: h.Kind, Since: stamp{h.Since}, ExpiresAt: stamp{h.ExpiresAt}}
	}
	return j
}
