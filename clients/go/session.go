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

// Status is a State with what the app may want to show beside it. CanRetry is
// true only if the server's last event does not refuse it.
type Status struct {
	State
	// Event is the last accepted event; never nil, its Name is "" before the first.
	Event *Event
	// NextTry is when a job that waits goes on, on the client's clock; zero when there is
	// no such time. See [Status.RetryIn].
	NextTry time.Time
	// RetryFrom is when the server takes a retry by hand again; zero for now. See
	// [Status.RetryAllowedIn].
	RetryFrom time.Time
	// Problem is why the server refused the stream or the last retry; nil if it
	// did not. A retry that got no answer at all leaves it nil, too.
	Problem *HTTPError

	client *Client // whose clock counts down
}

// RetryIn is how long it is until a job that waits goes on: a countdown that does not
// depend on the device's time of day. It is false when there is no such time.
func (s Status) RetryIn() (time.Duration, bool) { return s.left(s.NextTry), !s.NextTry.IsZero() }

// RetryAllowedIn is how long it is until the server takes a retry by hand; 0 for now.
func (s Status) RetryAllowedIn() time.Duration { return s.left(s.RetryFrom) }

func (s Status) left(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(s.client.now()), 0)
}

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

	machine    Machine
	epoch      int       // counts machines
	made       time.Time // time 0 of the machine
	late       int64     // random extra on the scheduled subscribe, in ms
	timer      *time.Timer
	stream     *stream
	generation int       // of the stream; what an older one says is dropped
	seed       string    // last event id of the newest stream's parser
	fresh      bool      // the next subscribe goes without a position
	event      *Event    // the one NextTry and RetryFrom were made from
	checkAt    time.Time // the end of its countdown and a little; zero when there is nothing to check
	checking   bool      // a countdown has run out without news, and a new stream has not opened yet
	next       Status
	onRetried  []chan error

	mu        sync.Mutex
	status    Status
	published bool
}

// Open starts to follow a session. It returns at once; ctx bounds the Session's life.
func (c *Client) Open(ctx context.Context, session string) *Session {
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{
		client:  c,
		id:      session,
		ctx:     ctx,
		cancel:  cancel,
		calls:   make(chan func()),
		updates: make(chan Status, 1),
		done:    make(chan struct{}),
		timer:   time.NewTimer(time.Hour),
	}
	m, _ := NewMachine(session, c.workload)
	s.status = Status{State: m.State(), Event: m.Event(), client: c}
	s.next.client = c
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
	return s.status
}

// Retry asks the server for another try, as the user's tap on the retry button,
// and waits until it is accepted. An *HTTPError says why it was not; its RetryAfter
// how long to wait. The end of ctx ends the waiting, not the retry.
func (s *Session) Retry(ctx context.Context) error {
	answer := make(chan error, 1)
	ok := s.do(s.ctx, func() {
		if !s.next.CanRetry {
			answer <- ErrNothingToRetry
			return
		}
		s.onRetried = append(s.onRetried, answer)
		s.next.Problem, s.next.NextTry, s.next.RetryFrom = nil, time.Time{}, time.Time{}
		s.checkAt, s.checking = time.Time{}, false
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
	if s.checkAt.IsZero() || s.client.now().Before(s.checkAt) {
		s.apply(Input{Kind: OnTick})
		return
	}
	s.checkAt, s.checking = time.Time{}, true
	s.foreground()
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
	s.made, s.late, s.seed, s.fresh, s.next.Problem = s.client.now(), 0, "", false, nil
	var effects []Effect
	s.machine, effects = NewMachine(s.id, s.client.workload)
	s.readTimes()
	s.carryOut(effects)
	s.publish()
}

// apply gives an input to the machine and does what it wants.
func (s *Session) apply(in Input) {
	in.At = s.elapsed()
	before := s.machine.State().ResubscribeAt
	effects := s.machine.Apply(in)
	if at := s.machine.State().ResubscribeAt; at != before {
		s.late = 0
		if in.Kind == OnDisconnect && at >= 0 {
			// Clients that lost the server in one moment must not come back in one.
			s.late = mathrand.Int64N((at-in.At)/4 + 1)
		}
	}
	s.readTimes()
	s.carryOut(effects)
	s.publish()
}

func (s *Session) elapsed() int64 { return s.client.now().Sub(s.made).Milliseconds() }

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
	next := s.machine.NextTick(s.late)
	if !s.checkAt.IsZero() {
		if check := s.checkAt.Sub(s.made).Milliseconds() + 1; next < 0 || check < next {
			next = check
		}
	}
	if next < 0 {
		s.timer.Stop()
		return
	}
	s.timer.Reset(time.Duration(max(next-s.elapsed(), 0)) * time.Millisecond)
}

// publish makes the newest status known, if it differs.
func (s *Session) publish() {
	s.next.State, s.next.Event = s.machine.State(), s.machine.Event()
	s.next.CanRetry = s.next.CanRetry && !s.next.Event.RefusesRetry
	if s.next.Phase == Failed {
		s.next.NextTry = time.Time{} // a refused stream: whatever it announced, nobody waits for it here
	}
	if s.checking && s.machine.waiting() {
		s.next.MessageKey = KeyChecking
	}

	s.mu.Lock()
	news := !s.published || s.status != s.next
	s.status, s.published = s.next, true
	s.mu.Unlock()
	if !news {
		return
	}
	if s.client.trace != nil {
		s.client.trace(s.next)
	}
	select {
	case <-s.updates: // nobody has read the one before
	default:
	}
	s.updates <- s.next
}

// readTimes turns the times of a new event into times of the client's clock, by what
// the server said was left.
func (s *Session) readTimes() {
	e := s.machine.Event()
	if e == s.event {
		return
	}
	s.event, s.checking = e, false
	s.next.NextTry, s.next.RetryFrom, s.checkAt = time.Time{}, time.Time{}, time.Time{}
	now := s.client.now()
	after := func(at time.Time) time.Time {
		if at.IsZero() || e.ServerTime.IsZero() {
			return time.Time{}
		}
		return now.Add(max(at.Sub(e.ServerTime), 0))
	}
	switch {
	case e.Name == "retrying" && e.RetryIn > 0:
		s.next.NextTry = now.Add(e.RetryIn)
	case e.Name == "retrying":
		s.next.NextTry = after(e.NextRetryAt)
	case e.Name == "queued":
		s.next.NextTry = after(e.NotBefore)
	case e.Name == "error":
		if at := after(e.RetryAvailableAt); at.After(now) {
			s.next.RetryFrom = at
		}
	}
	if !s.next.NextTry.IsZero() {
		s.checkAt = s.next.NextTry.Add(checkAfter)
	}
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
			s.next.Problem = problem
			if problem != nil && problem.RetryAfter > 0 {
				s.next.RetryFrom = s.client.now().Add(problem.RetryAfter)
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
