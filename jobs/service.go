package jobs

import (
	"context"
	"errors"

	"github.com/tidings/tidings/events"
)

// Service is what a request can ask of the jobs. Every method answers with a
// *Refusal when it may not do what was asked, and with an error that wraps
// events.ErrUnavailable when the storage cannot be reached.
type Service struct{}

// Submit starts a job for a new version of the topic's document, or answers
// with the live one.
func (s *Service) Submit(ctx context.Context, r Submit) (Accepted, error) {
	return Accepted{}, errors.New("unfinished")
}

// Retry is the user's "try again": see the table in contract.md.
func (s *Service) Retry(ctx context.Context, topic events.Topic) (Accepted, error) {
	return Accepted{}, errors.New("unfinished")
}

// Cancel ends the topic's live job and answers with how it stands then; a job
// that has already ended is left as it is. CodeNotFound when there is none.
func (s *Service) Cancel(ctx context.Context, topic events.Topic) (Accepted, error) {
	return Accepted{}, errors.New("unfinished")
}

// Document returns the topic's current document; CodeNoDocument when there is
// none yet.
func (s *Service) Document(ctx context.Context, topic events.Topic) (Document, error) {
	return Document{}, errors.New("unfinished")
}

// Attempts returns the ledger of the topic's newest job; CodeNotFound when no
// job is known.
func (s *Service) Attempts(ctx context.Context, topic events.Topic) (Ledger, error) {
	return Ledger{}, errors.New("unfinished")
}
