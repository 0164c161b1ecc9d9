package model

import (
	"fmt"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

// Error is a failed call, already classified where the vendor's type was still
// known. Its text is safe to log and to show to operators: it never contains
// the prompt, the output, a key or the provider's message.
type Error struct {
	Kind retry.Kind
	// Status is the provider's HTTP status, 0 if there was none.
	Status int
	// Type is the provider's own error type, such as "overloaded_error".
	Type string
	// RetryAfter is the provider's wait hint counted from the answer; 0 is none.
	RetryAfter time.Duration
	// RequestID is the provider's id of the failed request.
	RequestID string
	// Usage is what the failed call is known to have used.
	Usage Usage
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
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(", wait %s", e.RetryAfter)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Cause }
