package events

import (
	"context"
	"errors"
	"time"
)

// ErrUnavailable wraps every failure of the storage behind a log. Nothing is
// known then; ask again later.
var ErrUnavailable = errors.New("events: the log cannot be reached, try again later")

// ErrIllegal is returned by Append when the status may not follow the last one.
var ErrIllegal = errors.New("events: this status may not follow the current one")

// Log remembers every topic's transitions and passes copies of new ones on. The
// log is the truth; a live copy may be lost, doubled or late, and readers
// repair that from the log. Every implementation passes eventstest.Suite.
type Log interface {
	// Append stores t as the topic's newest transition and publishes it, in one
	// atomic step. It sets Seq, Prev and At and returns what was stored.
	// ErrIllegal when Status may not follow (see May).
	Append(ctx context.Context, topic Topic, t Transition) (Transition, error)

	// After returns the transitions newer than seq, oldest first, at most
	// MaxLog of them, and the topic's head: the newest Seq, 0 when the log
	// knows none. known is false when seq is neither 0 nor still in the log,
	// or beyond its head: then the transitions are just the newest one, and
	// the reader must be told that its place was lost.
	After(ctx context.Context, topic Topic, seq int64) (newer []Transition, head int64, known bool, err error)

	// Read answers many readers' first questions, in the order asked and in as
	// few round trips as it can. An answer of its own may fail (Err); the error
	// returned is that the log did not answer at all.
	Read(ctx context.Context, asks []Ask) ([]Answer, error)

	// Last returns each topic's newest transition, in the order asked; the
	// zero Transition (Seq 0) where there is none.
	Last(ctx context.Context, topics []Topic) ([]Transition, error)

	// Listen opens the process's one connection for live copies.
	Listen(ctx context.Context) (Listener, error)

	// Now is the storage's clock, which all stored times are made with.
	Now(ctx context.Context) (time.Time, error)
}

// MaxLog is how many transitions of a topic are kept; older ones are trimmed.
const MaxLog = 256

// How says which of a topic's transitions a reader asks for.
type How uint8

// The three ways to begin.
const (
	// Current: the newest one.
	Current How = iota
	// Resume: what is newer than Seq, a place of this topic; all that the log
	// has when Seq is 0. Not known when the log has not that place (see After).
	Resume
	// Since: what is newer than Seq, which may be any time in ms. Not known when
	// some of that is no longer in the log, or the log knows nothing at all.
	Since
)

// Ask is a reader's first question about a topic.
type Ask struct {
	Topic Topic
	How   How
	Seq   int64 // the reader's place; unused with Current
}

// Answer is the log's answer to an Ask.
type Answer struct {
	// Newer is what was asked for, oldest first, at most MaxLog transitions. If
	// not Known, it is the newest alone, and the reader must be told that its
	// place was lost.
	Newer []Transition
	Head  Transition // the newest; the zero Transition where there is none
	Known bool
	Err   error // this topic's entries cannot be read
}

// Listener receives live copies of transitions.
type Listener interface {
	// Watch asks for a topic's transitions. It does not wait: Receive answers
	// with a Signal whose Watching is true once the storage has confirmed.
	Watch(topic Topic) error
	// Unwatch ends that.
	Unwatch(topic Topic) error
	// Receive blocks for the next signal. It heals lost connections by itself
	// and signals Watching anew for each topic after it has: whatever was
	// published in between may be lost. It fails only with ctx or after Close.
	Receive(ctx context.Context) (Signal, error)
	Close() error
}

// Signal is what a Listener receives: a confirmed watch, or a transition.
type Signal struct {
	Topic      Topic
	Watching   bool
	Transition Transition
}
