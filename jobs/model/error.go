package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

// Error is a failed call, already classified where the vendor's type was still
// known. Its text is safe to log and to show to operators: it never contains
// the prompt, the output, a key or the provider's message; only Message has
// something of the latter, and is for those who look for the cause.
type Error struct {
	Kind retry.Kind
	// Status is the provider's HTTP status, 0 if there was none.
	Status int
	// Type is the provider's own error type, such as "overloaded_error", if
	// ErrorTypes knows it, or our name for what has none.
	Type string
	// Message is what may be kept of the provider's message, see Redact.
	Message string
	// RetryAfter is the provider's wait hint counted from the answer; 0 is none.
	RetryAfter time.Duration
	// RequestID is the provider's id of the failed request.
	RequestID string
	// Usage is what the failed call is known to have used.
	Usage Usage
	// Adjusted: the provider has learnt from this refusal, and the next call asks
	// differently. The same request is then worth one more call, whatever Kind says.
	Adjusted bool
	// Advice says what an operator can change; it is our own text.
	Advice string
	// Cause is for errors.Is and errors.As; Error does not print it.
	Cause error
}

func (e *Error) Error() string {
	s := "model: " + string(e.Kind)
	if e.Status != 0 {
		s += fmt.Sprintf(" (status %d", e.Status)
		if e.Type != "" {
			s += ", " + e.Type
		}
		s += ")"
	}
	if e.Status == 0 && e.Type != "" {
		s += " (" + e.Type + ")"
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(", wait %s", e.RetryAfter)
	}
	if e.Advice != "" {
		s += ": " + e.Advice
	}
	return s
}

func (e *Error) Unwrap() error { return e.Cause }

// InCall reports whether layer 1 may repeat the call.
func (e *Error) InCall() bool { return e.Adjusted || e.Kind.InCall(e.Status) }

// Queued reports whether the queue may run the job again.
func (e *Error) Queued() bool { return e.Adjusted || e.Kind.Queued() }

// Exhausted says that the attempt's calls are used up and the last one failed
// as well (S3-14). It wraps that failure, so that errors.As finds the *Error
// with its wait hint.
type Exhausted struct {
	// Calls is how many calls were made in this attempt.
	Calls int
	Last  *Error
}

func (e *Exhausted) Error() string {
	return fmt.Sprintf("model: retries exhausted after %d calls: %v", e.Calls, e.Last)
}

func (e *Exhausted) Unwrap() error { return e.Last }

// NoTime says that no call was made, because too little time was left for the
// first one. Only the job's deadline, or the context's, can cause it. It wraps
// context.DeadlineExceeded and is no *Error: the provider was not asked.
type NoTime struct {
	// Left is what was left, negative if the end had passed.
	Left time.Duration
}

func (e *NoTime) Error() string {
	return fmt.Sprintf("model: no call made with %s left", e.Left.Round(time.Millisecond))
}

func (e *NoTime) Unwrap() error { return context.DeadlineExceeded }

// AsError makes an *Error of whatever a call failed with, nil of nil. It is for
// failures that are no answer: what carries a status is for the adapter to
// classify. ctx is the call's own: if it has ended, that is the reason, Timeout
// at its deadline and Cancelled before. Then time limits and failures of the
// connection are told by their Go types, and only then by their text. An *Error
// in the chain is kept, unless the context ended it. The text of err goes into
// Cause alone.
func AsError(ctx context.Context, err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	known := errors.As(err, &e)
	if known && e == nil { // a nil pointer in an error: the adapter's mistake
		return &Error{Kind: retry.Internal}
	}
	if known && e.Status >= 400 {
		return e // an answer: the end of the context came after it
	}
	if ctx.Err() != nil {
		ended := endOf(ctx)
		if known {
			ended.Type, ended.RequestID, ended.Usage = e.Type, e.RequestID, e.Usage
		}
		ended.Cause = err
		return ended
	}
	if known {
		return e
	}
	return &Error{Kind: kindOf(err), Cause: err}
}

// endOf is the error of a context that has ended.
func endOf(ctx context.Context) *Error {
	e := &Error{Kind: retry.Cancelled, Cause: context.Cause(ctx)}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Kind = retry.Timeout
	}
	return e
}

func kindOf(err error) retry.Kind {
	var n net.Error
	isNet := errors.As(err, &n)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && n.Timeout():
		return retry.Timeout
	case isNet, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled):
		// A cancellation that is not ours is a connection that somebody gave up.
		return retry.Network
	}
	kind, _ := retry.Classify(0, err.Error())
	return kind
}
