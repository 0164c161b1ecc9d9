package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// ErrEnd is the answer to an order that would end too late, or has ended.
var ErrEnd = errors.New("gate: the end must lie in the next " + orderMax.String())

// Order is who wants something, why, and until when. An order always ends by
// itself: what is forgotten must not stay.
type Order struct {
	Owner string `json:"owner"` // needed; what was typed
	Note  string `json:"note"`
	// Login is the name that logged in to give the order, From its address.
	Login string    `json:"login,omitempty"`
	From  string    `json:"from,omitempty"`
	Until time.Time `json:"until,omitzero"` // Redis time, at most 7 days ahead; not used by Resume, Probe and SwitchOn
}

// Scope is whose retries are switched: everybody's if it is zero, else those of
// one dependency or of one workload.
type Scope struct {
	Dependency string `json:"dependency,omitempty"`
	Workload   string `json:"workload,omitempty"`
}

// Record is an order as it was carried out, or is in force.
type Record struct {
	At     time.Time `json:"at,omitzero"` // zero in lists of what is in force
	Action string    `json:"action"`      // off, on, pause, resume, probe
	Scope
	Order
}

// Switches is what Switches returns.
type Switches struct {
	Off   []Record // in force now
	Audit []Record // the last 100 orders, newest first
}

// State is what the gate of a dependency looks like at a moment.
type State struct {
	At time.Time // Redis time

	Breaker    string    // closed, open, half_open
	OpenUntil  time.Time // of its last opening
	Trips      int       // openings since it was last closed
	ProbesOut  int       // half open: under way
	ProbesGood int       // half open: succeeded
	Calls, Bad int       // of the rolling window

	Limit   float64  // calls allowed at the same time now
	InUse   int      // permits with a live lease
	Holders []Holder // at most 100, those whose lease ends first before the others

	// Tokens in the two buckets, and when each has at least one.
	RetryTokens, ManualTokens           float64
	RetryAvailableAt, ManualAvailableAt time.Time

	HeldUntil   time.Time // by a provider's hint; zero if not held
	PausedUntil time.Time // by an operator; zero if not paused
	PauseOwner  string
	PauseNote   string
	Audit       []Record // the last 100 pauses and resumptions, newest first
}

// ClosedUntil is until when no call goes, as far as it is known; zero if calls go, or
// probes do.
func (s State) ClosedUntil() (until time.Time) {
	ends := []time.Time{s.PausedUntil, s.HeldUntil}
	if s.Breaker == "open" {
		ends = append(ends, s.OpenUntil)
	}
	for _, end := range ends {
		if end.After(until) {
			until = end
		}
	}
	return until
}

// Holder is who holds a permit.
type Holder struct {
	Permit, Kind, Workload, JobID string // Kind: first, retry, manual
	Since, ExpiresAt              time.Time
}

// Pause makes every ticket of the dependency wait until o.Until. Calls that are
// under way go on.
func (g *Gate) Pause(ctx context.Context, dependency string, o Order) error {
	return g.pause(ctx, dependency, "pause", o)
}

// Resume ends a pause, and what a provider's hint holds (decision 4).
func (g *Gate) Resume(ctx context.Context, dependency string, o Order) error {
	o.Until = time.Time{}
	return g.pause(ctx, dependency, "resume", o)
}

// Probe ends the wait of an open breaker: the next calls test the dependency.
func (g *Gate) Probe(ctx context.Context, dependency string, o Order) error {
	o.Until = time.Time{}
	return g.pause(ctx, dependency, "probe", o)
}

func (g *Gate) pause(ctx context.Context, dependency, action string, o Order) error {
	if err := names(dependency); err != nil {
		return err
	}
	scope := Scope{Dependency: dependency}
	return g.order(ctx, "pause", keys(dependency), action, scope, o, o.Owner, o.Note)
}

// SwitchOff refuses all calls of the scope that are not a job's first, from the
// next ticket on, until o.Until. A second order for the same scope replaces the
// first.
func (g *Gate) SwitchOff(ctx context.Context, s Scope, o Order) error {
	return g.flip(ctx, "off", s, o)
}

// SwitchOn ends SwitchOff for exactly that scope.
func (g *Gate) SwitchOn(ctx context.Context, s Scope, o Order) error {
	o.Until = time.Time{}
	return g.flip(ctx, "on", s, o)
}

func (g *Gate) flip(ctx context.Context, action string, s Scope, o Order) error {
	if s.Dependency != "" && s.Workload != "" {
		return errors.New("gate: a switch is for a dependency or for a workload, not for both")
	}
	if s != (Scope{}) {
		if err := names(s.Dependency + s.Workload); err != nil {
			return err
		}
	}
	return g.order(ctx, "switch", offKeys(), action, s, o)
}

// order carries out a pause or a switch: the order's end comes first among its
// script's arguments (after the scope of a switch), its record last.
func (g *Gate) order(ctx context.Context, verb string, on []string, action string, s Scope, o Order, args ...any) error {
	if o.Owner == "" || len(o.Owner) > 200 || len(o.Note) > 500 {
		return errors.New("gate: an order needs an owner of at most 200 bytes and a note of at most 500")
	}
	begins := action == "off" || action == "pause"
	until := int64(0)
	switch {
	case begins:
		until = max(1, o.Until.UnixMilli()) // 0 would end what should begin
	case action == "probe":
		until = -1
	}
	record, err := json.Marshal(Record{Action: action, Scope: s, Order: o})
	if err != nil {
		return fmt.Errorf("gate: %s: %w", action, err)
	}
	all := []any{until}
	if verb == "switch" {
		all = []any{s.field(), until}
	}
	all = append(append(all, args...), string(record))
	done, err := g.verbs[verb].Run(ctx, g.client, on, all...).Int()
	if err != nil {
		return fmt.Errorf("gate: %s: %w", action, err)
	}
	if done == 0 {
		return fmt.Errorf("gate: %s until %s: %w", action, o.Until.Format(time.RFC3339), ErrEnd)
	}
	return nil
}

// Switched tells whether repeated calls are switched off: Go or Stop, without a
// permit. Ticket asks it by itself; it is for those who make their calls without
// tickets, and have no dependency ("") that we know.
func (g *Gate) Switched(ctx context.Context, dependency, workload string) (Answer, error) {
	of := ""
	if dependency != "" {
		of = Scope{Dependency: dependency}.field()
	}
	got, err := g.ask(ctx, desk{verb: "switched"}, Scope{Workload: workload}.field(), of)
	if err != nil {
		return Answer{}, fmt.Errorf("gate: kill switch: %w", err)
	}
	return got.public(), nil
}

// Switches lists what is switched off.
func (g *Gate) Switches(ctx context.Context) (Switches, error) {
	reply, err := g.verbs["switches"].Run(ctx, g.client, offKeys()).Slice()
	if err != nil {
		return Switches{}, fmt.Errorf("gate: switches: %w", err)
	}
	var s Switches
	for _, entry := range texts(reply[0]) {
		var r Record
		if err := json.Unmarshal([]byte(entry), &r); err != nil {
			return Switches{}, fmt.Errorf("gate: switches: %w", err)
		}
		s.Off = append(s.Off, r)
	}
	s.Audit, err = audit(texts(reply[1]))
	return s, err
}

// Room is how many calls may go in a state: all of them, what its tests still want, or
// none.
func (g *Gate) Room(s State) int {
	switch {
	case s.ClosedUntil().After(s.At):
		return 0
	case s.Breaker == "half_open":
		return g.probes - s.ProbesOut - s.ProbesGood
	}
	return math.MaxInt32
}

// Inspect shows a dependency's gate, for metrics, operators and checks.
func (g *Gate) Inspect(ctx context.Context, dependency string) (State, error) {
	if err := names(dependency); err != nil {
		return State{}, err
	}
	reply, err := g.verbs["inspect"].Run(ctx, g.client, keys(dependency)).Slice()
	if err != nil {
		return State{}, fmt.Errorf("gate: inspect %s: %w", dependency, err)
	}
	var in struct {
		Breaker              string
		Limit, Retry, Manual float64
		Trips, Calls, Bad    int
		ProbesOut            int   `json:"probes_out"`
		ProbesGood           int   `json:"probes_good"`
		InUse                int   `json:"in_use"`
		OpenUntil            int64 `json:"open_until"`
		RetryAt              int64 `json:"retry_at"`
		ManualAt             int64 `json:"manual_at"`
		Now, Held, Paused    int64
		PauseOwner           string `json:"pause_owner"`
		PauseNote            string `json:"pause_note"`
	}
	object, _ := reply[0].(string)
	if err := json.Unmarshal([]byte(object), &in); err != nil {
		return State{}, fmt.Errorf("gate: inspect %s: %w", dependency, err)
	}
	s := State{
		At: time.UnixMilli(in.Now).UTC(), Breaker: in.Breaker, Trips: in.Trips,
		ProbesOut: in.ProbesOut, ProbesGood: in.ProbesGood, Calls: in.Calls, Bad: in.Bad,
		Limit: in.Limit, InUse: in.InUse, RetryTokens: in.Retry, ManualTokens: in.Manual,
		RetryAvailableAt: time.UnixMilli(in.RetryAt).UTC(), ManualAvailableAt: time.UnixMilli(in.ManualAt).UTC(),
	}
	if in.OpenUntil > 0 {
		s.OpenUntil = time.UnixMilli(in.OpenUntil).UTC()
	}
	if in.Held > in.Now {
		s.HeldUntil = time.UnixMilli(in.Held).UTC()
	}
	if in.Paused > in.Now {
		s.PausedUntil, s.PauseOwner, s.PauseNote = time.UnixMilli(in.Paused).UTC(), in.PauseOwner, in.PauseNote
	}
	holders := texts(reply[1])
	for i := 0; i+2 < len(holders); i += 3 {
		s.Holders = append(s.Holders, holder(holders[i], holders[i+1], holders[i+2]))
	}
	s.Audit, err = audit(texts(reply[2]))
	return s, err
}

// holder reads '<gen> <kind> <since> <workload> <job>'.
func holder(permit, ends, record string) Holder {
	h := Holder{Permit: permit, ExpiresAt: ms(ends)}
	if f := strings.Fields(record); len(f) == 5 {
		h.Kind, h.Since, h.Workload, h.JobID = f[1], ms(f[2]), f[3], f[4]
	}
	return h
}

// audit reads entries '<at> <record as JSON>'.
func audit(entries []string) ([]Record, error) {
	var all []Record
	for _, entry := range entries {
		at, object, _ := strings.Cut(entry, " ")
		var r Record
		if err := json.Unmarshal([]byte(object), &r); err != nil {
			return nil, fmt.Errorf("gate: audit: %w", err)
		}
		r.At = ms(at)
		all = append(all, r)
	}
	return all, nil
}

// field is the scope's name in the hash of what is off.
func (s Scope) field() string {
	switch {
	case s.Dependency != "":
		return "dependency " + s.Dependency
	case s.Workload != "":
		return "workload " + s.Workload
	default:
		return "all"
	}
}

// offKeys are the fleet's, in a slot of their own.
func offKeys() []string { return []string{"tidings:{gate}:off", "tidings:{gate}:audit"} }

// texts is a reply's list of strings.
func texts(reply any) []string {
	list, _ := reply.([]any)
	all := make([]string, 0, len(list))
	for _, item := range list {
		text, _ := item.(string)
		all = append(all, text)
	}
	return all
}
