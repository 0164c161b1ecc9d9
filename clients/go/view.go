package tidings

import "time"

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

// view is what is shown of one session: its machine, and the machine's times on the
// client's clock.
type view struct {
	client    *Client
	machine   Machine
	made      time.Time // time 0 of the machine
	event     *Event    // the one that the times were made from
	nextTry   time.Time
	retryFrom time.Time
	checkAt   time.Time // the end of the countdown and a little; zero when there is nothing to check
	checking  bool      // the countdown has run out without news, and a new stream has not opened yet
}

func newView(c *Client, session, workload string) (view, []Effect) {
	m, effects := NewMachine(session, workload)
	return view{client: c, machine: m, made: c.now(), event: m.Event()}, effects
}

func (v *view) elapsed() int64 { return v.client.now().Sub(v.made).Milliseconds() }

// apply gives an input to the machine and takes the times of a new event.
func (v *view) apply(in Input) []Effect {
	in.At = v.elapsed()
	if in.Kind == OnRetry {
		v.forgetTimes()
	}
	effects := v.machine.Apply(in)
	if e := v.machine.Event(); e != v.event {
		v.event = e
		v.readTimes()
	}
	return effects
}

// checks tells whether a countdown has run out without any news. That may mean that the
// connection is dead. It is true once for each countdown.
func (v *view) checks() bool {
	if v.checkAt.IsZero() || v.client.now().Before(v.checkAt) {
		return false
	}
	v.checkAt, v.checking = time.Time{}, true
	return true
}

// wake is when the view changes with time alone; zero for never. A scheduled subscribe
// may come late by so many milliseconds.
func (v *view) wake(late int64) time.Time {
	next := v.machine.NextTick(late)
	if next < 0 {
		return v.checkAt
	}
	return earlier(v.made.Add(time.Duration(next)*time.Millisecond), v.checkAt)
}

// earlier is the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (v *view) status(problem *HTTPError) Status {
	s := Status{
		State: v.machine.State(), Event: v.machine.Event(), client: v.client,
		NextTry: v.nextTry, RetryFrom: v.retryFrom, Problem: problem,
	}
	s.CanRetry = s.CanRetry && !s.Event.RefusesRetry
	if s.Phase == Failed {
		s.NextTry = time.Time{} // a refused stream: whatever it announced, nobody waits for it here
	}
	if v.checking && v.machine.waiting() {
		s.MessageKey = KeyChecking
	}
	return s
}

func (v *view) forgetTimes() {
	v.nextTry, v.retryFrom, v.checkAt, v.checking = time.Time{}, time.Time{}, time.Time{}, false
}

// readTimes turns the event's times into times of the client's clock, by what the
// server said was left.
func (v *view) readTimes() {
	v.forgetTimes()
	e, now := v.event, v.client.now()
	after := func(at time.Time) time.Time {
		if at.IsZero() || e.ServerTime.IsZero() {
			return time.Time{}
		}
		return now.Add(max(at.Sub(e.ServerTime), 0))
	}
	switch {
	case e.Name == "retrying" && e.RetryIn > 0:
		v.nextTry = now.Add(e.RetryIn)
	case e.Name == "retrying":
		v.nextTry = after(e.NextRetryAt)
	case e.Name == "queued":
		v.nextTry = after(e.NotBefore)
	case e.Name == "error":
		if at := after(e.RetryAvailableAt); at.After(now) {
			v.retryFrom = at
		}
	}
	if !v.nextTry.IsZero() {
		v.checkAt = v.nextTry.Add(checkAfter)
	}
}
