package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/tidings/tidings/events"
)

// repeat tries a verb again, once, when its answer was lost: every verb may be
// repeated with its token, and one of the two tries tells what happened.
func repeat[T any](ctx context.Context, verb func() (T, error)) (T, error) {
	got, err := verb()
	if err == nil || !errors.Is(err, events.ErrUnavailable) || ctx.Err() != nil {
		return got, err
	}
	select {
	case <-ctx.Done():
		return got, err
	case <-time.After(50 * time.Millisecond):
	}
	return verb()
}
