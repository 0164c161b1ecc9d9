package tidings

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// ErrNothingToRetry is returned by [Session.Retry] unless the status says CanRetry,
// and when a submission overtakes it.
var ErrNothingToRetry = errors.New("tidings: there is nothing to retry now")

// ErrClosed is returned by a session that was closed or whose context has ended.
var ErrClosed = errors.New("tidings: the session is closed")

// Session follows one session's status and carries out what its user wants. It
// lives until Close or the end of its context; states that end a stream do not end
// it. All methods are safe for concurrent use.
type Session struct {
	client  *Client
	id      string
	ctx     context.Context
	cancel  context.CancelFunc
	calls   chan func() // run by the loop, which alone owns what follows
	updates chan Status
	done    chan struct{}
	others  sync.WaitGroup // goroutines beside the loop

	view
	list       *List  // whose one stream this is; nil for a session's own
	address    string // of the stream
	epoch      int    // counts machines
	late       int64  // random extra on the scheduled subscribe, in ms
	timer      *time.Timer
	stream     *stream
	generation int    // of the stream; what an older one says is dropped
	seed       string // last event id of the newest stream's parser
	fresh      bool   // the next subscribe goes without a position
	problem    *HTTPError
	onRetried  []chan error

	mu        sync.Mutex
	newest    Status
	published bool
}

// Open starts to follow a session. It returns at once; ctx bounds the Session's life.
func (c *Client) Open(ctx context.Context, session string) *Session {
	return c.open(ctx, session, c.path(session, "/status"), nil)
}

func (c *Client) open(ctx context.Context, session, address string, list *List) *Session {
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{
		client:  c,
		id:      session,
		address: address,
		list:    list,
		ctx:     ctx,
		cancel:  cancel,
		calls:   make(chan func()),
		updates: make(chan Status, 1),
		done:    make(chan struct{}),
		timer:   time.NewTimer(time.Hour),
	}
	first, _ := newView(c, session, c.workload)
	s.newest = first.status(nil)
	go s.loop()
	return s
}

// Updates delivers states in order. It holds one: a reader that is slower than the
// stream gets the newest and misses those between. It is closed with the session.
func (s *Session) Updates() <-chan Status { return s.updates }

// Status is the newest status.
func (s *Session) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// Retry asks the server for another try, as the user's tap on the retry button,
// and waits until it is accepted. An *HTTPError says why it was not; its RetryAfter
// how long to wait. The end of ctx ends the waiting, not the retry.
func (s *Session) Retry(ctx context.Context) error {
	answer := make(chan error, 1)
	ok := s.do(s.ctx, func() {
		if !s.view.status(nil).CanRetry {
			answer <- ErrNothingToRetry
			return
		}
		s.onRetried = append(s.onRetried, answer)
		s.problem = nil
		s.apply(Input{Kind: OnRetry})
	})
	if !ok {
		return ErrClosed
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return ErrClosed
	}
}

// Dismiss is the user's "I'll see this later": the view goes, the stream and
// Outcome go on.
func (s *Session) Dismiss() { s.do(s.ctx, func() { s.apply(Input{Kind: OnDismiss}) }) }

// Foreground says that the app is visible again or the network came back: whatever
// stream there is cannot be trusted, and a new one is opened at once.
func (s *Session) Foreground() { s.do(s.ctx, s.foreground) }

func (s *Session) foreground() {
	if s.stream != nil {
		s.client.http.renew(s.stream.via)
	}
	s.apply(Input{Kind: OnForeground})
}

// Submit is [Client.Submit] for this session. Once accepted, the session follows
// the new job from its start, whatever came of the one before.
func (s *Session) Submit(ctx context.Context, sub Submission) (Job, error) {
	job, err := s.client.Submit(ctx, s.id, sub)
	if err == nil {
		s.do(s.ctx, s.start)
	}
	return job, err
}

// Document is [Client.Document] for this session.
func (s *Session) Document(ctx context.Context) (Document, error) {
	return s.client.Document(ctx, s.id)
}

// Attempts is [Client.Attempts] for this session.
func (s *Session) Attempts(ctx context.Context) (Ledger, error) {
	return s.client.Attempts(ctx, s.id)
}

// Cancel is [Client.Cancel] for this session.
func (s *Session) Cancel(ctx context.Context) error { return s.client.Cancel(ctx, s.id) }

// Close drops the stream and waits until nothing of the session runs any more.
func (s *Session) Close() {
	s.cancel()
	<-s.done
}

func (s *Session) loop() {
	defer close(s.done)
	defer close(s.updates)
	if s.list != nil {
		defer close(s.list.updates)
	}
	defer s.others.Wait()
	defer s.timer.Stop()
	defer s.cancel()
	s.start()
	for {
		select {
		case <-s.ctx.Done():
			return
		case f := <-s.calls:
			f()
		case <-s.timer.C:
			s.tick()
		}
	}
}

// do runs f on the loop and waits for it. It gives up, with false, when ctx ends
// before the loop has taken f.
func (s *Session) do(ctx context.Context, f func()) bool {
	ran := make(chan struct{})
	select {
	case s.calls <- func() { defer close(ran); f() }:
		<-ran
		return true
	case <-ctx.Done():
		return false
	}
}

// tick is time that has passed. A countdown that has run out without any news may mean
// that the connection is dead: what has happened is asked for on a new one.
func (s *Session) tick() {
	checks := s.checks()
	if s.list != nil {
		checks = s.list.checks()
	}
	if checks {
		s.foreground()
	} else {
		s.apply(Input{Kind: OnTick})
	}
}

// spawn runs f on a goroutine that Close waits for.
func (s *Session) spawn(f func()) {
	s.others.Add(1)
	go func() {
		defer s.others.Done()
		f()
	}()
}

// start makes a new machine: at the beginning, and for each new submission.
func (s *Session) start() {
	s.retried(ErrNothingToRetry)
	s.epoch++
	s.late, s.seed, s.fresh, s.problem = 0, "", false, nil
	var effects []Effect
	s.view, effects = newView(s.client, s.id, s.client.workload)
	s.carryOut(effects)
	s.publish()
}

// apply gives an input to the machine and does what it wants.
func (s *Session) apply(in Input) {
	if s.list != nil {
		in = s.list.take(in)
	}
	before := s.machine.State().ResubscribeAt
	effects := s.view.apply(in)
	if at := s.machine.State().ResubscribeAt; at != before {
		s.late = 0
		if in.Kind == OnDisconnect && at >= 0 {
			// Clients that lost the server in one moment must not come back in one.
			s.late = mathrand.Int64N(max(at-s.elapsed(), 0)/4 + 1)
		}
	}
	s.carryOut(effects)
	s.publish()
}

func (s *Session) carryOut(effects []Effect) {
	for _, effect := range effects {
		switch effect {
		case Subscribe:
			s.subscribe()
		case Close:
			s.stream.close()
		case PostRetry:
			s.postRetry()
		}
	}
	s.arm()
}

func (s *Session) arm() {
	next := s.wake(s.late)
	if s.list != nil {
		next = earlier(next, s.list.wake())
	}
	if next.IsZero() {
		s.timer.Stop()
		return
	}
	s.timer.Reset(max(next.Sub(s.client.now()), 0))
}

// publish makes the newest status known, if it differs.
func (s *Session) publish() {
	if s.list != nil {
		s.list.publish(s.view.status(s.problem))
		return
	}
	next := s.view.status(s.problem)
	s.mu.Lock()
	news := !s.published || s.newest != next
	s.newest, s.published = next, true
	s.mu.Unlock()
	if !news {
		return
	}
	if s.client.trace != nil {
		s.client.trace(next)
	}
	select {
	case <-s.updates: // nobody has read the one before
	default:
	}
	s.updates <- next
}

// postRetry carries the user's tap to the server and reports the answer.
func (s *Session) postRetry() {
	epoch := s.epoch
	s.spawn(func() {
		err := s.client.call(s.ctx, tapTimeout, request{
			method: http.MethodPost, path: s.client.path(s.id, "/retry"),
			header: map[string]string{"Accept": "application/json"},
		}, nil)
		s.do(s.ctx, func() {
			if epoch != s.epoch {
				return // a submission has come in between
			}
			var problem *HTTPError
			completed := errors.As(err, &problem) && problem.Status == http.StatusConflict && problem.Code == "already_completed"
			if err == nil || completed {
				// The position may be that of the very event that completed it,
				// after which a server has nothing to send.
				s.fresh = completed
				s.apply(Input{Kind: OnRetryAccepted})
				s.retried(nil)
				return
			}
			s.client.log.Debug("retry not accepted", "session", s.id, "error", err)
			s.problem = problem
			if problem != nil && problem.RetryAfter > 0 {
				s.retryFrom = s.client.now().Add(problem.RetryAfter)
			}
			s.apply(Input{Kind: OnRetryFailed})
			s.retried(err)
		})
	})
}

func (s *Session) retried(err error) {
	for _, answer := range s.onRetried {
		answer <- err
	}
	s.onRetried = nil
}

// newKey is a random idempotency key.
func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
