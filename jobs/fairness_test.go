package jobs_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// One owner tries to stop all others. Each attack is played against a real Redis
// with real tasks, and with the limits of an owner as they are by default unless
// that would only take longer.

func ownerShare(l jobs.Limits) jobs.OwnerLimits { return jobs.OwnerShare(100, 60, l, gate.Defaults()) }

// send submits a text for one of an owner's sessions.
func (p *process) send(owner string, session int, text string, change func(*jobs.Submit)) (jobs.Accepted, error) {
	s := jobs.Submit{Topic: events.NewTopic(owner, fmt.Sprint("s", session), "summary"), Input: jobs.Input{Text: text}}
	if change != nil {
		change(&s)
	}
	return p.service.Submit(p.Context(), s)
}

// refusal is the refusal that an error is; nil if it is none.
func refusal(err error) *jobs.Refusal {
	var r *jobs.Refusal
	if !errors.As(err, &r) {
		return nil
	}
	return r
}

// idle waits until no job is open.
func (l *line) idle() {
	l.Helper()
	l.until("all ended", func() bool {
		open, _, err := jobs.Counted(l.Context(), l.client)
		return err == nil && open == 0
	})
}

// since is how many more a rate may have allowed meanwhile.
func since(begin time.Time, every time.Duration) int { return int(time.Since(begin)/every) + 1 }

// TestOneOwnersFailedInputsLeaveRoom: an owner lets jobs with large inputs fail until
// these would fill all the room there is. Others are taken in; the owner's oldest
// inputs have made way, the newest can be tried again.
func TestOneOwnersFailedInputsLeaveRoom(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Status(500)))
	p := l.process(nil)
	p.service.Limits.InputBytes = 16 << 20
	p.service.Limits.Owner = ownerShare(p.service.Limits) // 8 MiB
	p.work()
	large := strings.Repeat("a ", 60_000) // 120 kB
	const many = 150                      // 18 MB
	refused := 0
	for i := range many {
		if _, err := p.send("eve", i, large, nil); err != nil {
			if r := refusal(err); r == nil || r.Code != jobs.CodeTooManyLiveJobs && r.Code != jobs.CodeTooOften {
				t.Fatal(err)
			}
			refused++
			l.idle()
			l.must(l.client.Del(t.Context(), "tidings:{open}:used").Err()) // a minute goes by
			_, err = p.send("eve", i, large, nil)
			l.must(err)
		}
	}
	l.idle()
	_, bytes, err := jobs.Counted(t.Context(), l.client)
	l.must(err)
	kept := 0
	for i := range many {
		kept += int(l.client.Exists(t.Context(), events.NewTopic("eve", fmt.Sprint("s", i), "summary").Key("input")).Val())
	}
	each := int64(len(large) + len(`{"text":""}`))
	if bytes > 8<<20 || bytes < 7<<20 || int64(kept)*each != bytes {
		t.Errorf("%d inputs with %d bytes are kept, and %d counted", kept, int64(kept)*each, bytes)
	}
	for i := range 20 {
		if _, err := p.send("ann", i, large, nil); err != nil {
			t.Fatalf("another owner's job %d: %v", i, err)
		}
	}
	l.must(l.client.Del(t.Context(), "tidings:{open}:used").Err())
	if _, err := p.service.Retry(t.Context(), events.NewTopic("eve", "s0", "summary")); refusal(err) == nil || refusal(err).Code != jobs.CodeInputGone {
		t.Errorf("the oldest failed job, tried again: %v", err)
	}
	if _, err := p.service.Retry(t.Context(), events.NewTopic("eve", fmt.Sprint("s", many-1), "summary")); err != nil {
		t.Errorf("the newest failed job, tried again: %v", err)
	}
}

// TestFailedInputsMakeWayForAll: also where everybody is one owner, and with inputs
// so small that more of them make way than one step takes.
func TestFailedInputsMakeWayForAll(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Status(500)))
	p := l.process(nil)
	p.service.Limits.InputBytes = 40_000
	p.work()
	const many = 360 // 39,600 bytes
	for i := range many {
		_, err := p.send("", i, strings.Repeat("x", 99), nil)
		l.must(err)
	}
	l.idle()
	open := newGated(false)
	l.model.swap(open)
	whole := strings.Repeat("x ", 19_900)
	if _, err := p.send("", many, whole, nil); err == nil {
		t.Fatal("300 inputs made way in one step: this test has seen nothing")
	}
	if _, err := p.send("", many, whole, nil); err != nil {
		t.Fatalf("asked again: %v", err)
	}
	<-open.arrived
	r := func(_ jobs.Accepted, err error) *jobs.Refusal { return refusal(err) }(p.send("", many+1, whole, nil))
	if r == nil || r.Code != jobs.CodeQueueFull || r.RetryAfter <= 0 {
		t.Errorf("beside an open job's input there is room: %+v", r)
	}
	if n := l.client.Exists(t.Context(), events.NewTopic("", fmt.Sprint("s", many), "summary").Key("input")).Val(); n != 1 {
		t.Error("an open job's input made way")
	}
}

// TestReplacingInALoopStartsLittle: each replacement counts as a start, leaves no
// task behind, and takes nothing from others.
func TestReplacingInALoopStartsLittle(t *testing.T) {
	t.Parallel()
	for _, bounded := range []bool{true, false} {
		t.Run(fmt.Sprint("bounded ", bounded), func(t *testing.T) {
			t.Parallel()
			l := newLine(t, modeltest.NewScripted(good()))
			p := l.process(nil) // nobody works
			if bounded {
				p.service.Limits.Owner = ownerShare(p.service.Limits)
			}
			started, begin := 0, time.Now()
			for i := range 400 {
				_, err := p.send("eve", 0, fmt.Sprint("text ", i), func(s *jobs.Submit) { s.Replace = true })
				if err == nil {
					started++
				} else if r := refusal(err); r == nil || r.Code != jobs.CodeTooOften || r.RetryAfter <= 0 || r.RetryAfter > time.Second {
					t.Fatalf("submit %d: %v", i, err)
				}
			}
			if most := 100 + since(begin, time.Second); bounded && started > most || !bounded && started != 400 {
				t.Errorf("%d jobs started", started)
			}
			q, err := l.operator.GetQueueInfo("summary")
			l.must(err)
			if q.Size != 1 {
				t.Errorf("%d tasks are in the queue for one live job", q.Size)
			}
			if _, err := p.send("ann", 0, "some text", nil); err != nil {
				t.Errorf("another owner: %v", err)
			}
		})
	}
}

// TestACancelledJobsTaskIsDeleted from the queue; one that a worker has is its own.
func TestACancelledJobsTaskIsDeleted(t *testing.T) {
	t.Parallel()
	m := newGated(false)
	l := newLine(t, m)
	p := l.process(nil)
	waiting := p.submit("some text")
	_, err := p.service.Cancel(t.Context(), l.topic)
	l.must(err)
	if s := l.state(l.task(waiting.JobID, 1)); s != "" {
		t.Errorf("the waiting task is %s", s)
	}
	p.listen().work()
	active := p.submit("other text")
	<-m.arrived
	_, err = p.service.Cancel(t.Context(), l.topic)
	l.must(err)
	l.until("dropped", func() bool { s := l.state(l.task(active.JobID, 1)); return s != "active" })
	if n := p.book.has("the task of an ended job"); n != 0 {
		t.Errorf("%d complaints about tasks", n)
	}
}

// TestOneOwnersTapsLeaveTheReserve: an owner taps "try again" on 40 failed jobs. The
// reserve of manual retries stays there for others.
func TestOneOwnersTapsLeaveTheReserve(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(modeltest.Status(500)))
	p := l.process(nil)
	p.service.Limits.Owner = ownerShare(p.service.Limits)
	p.worker.Gate = gate.New(p.client, gate.Defaults()) // 25 manual retries
	p.work()
	const evil, few = 40, 10
	for owner, n := range map[string]int{"eve": evil, "ann": few} {
		for i := range n {
			_, err := p.send(owner, i, "some text", nil)
			l.must(err)
		}
	}
	l.idle()
	l.model.swap(modeltest.NewScripted(good()))
	retried := func(owner string, n int) (taken int) {
		for i := range n {
			_, err := p.service.Retry(t.Context(), events.NewTopic(owner, fmt.Sprint("s", i), "summary"))
			switch r := refusal(err); {
			case err == nil:
				taken++
			case owner != "eve":
				t.Errorf("%s's tap %d: %v", owner, i, err)
			case r == nil || r.Code != jobs.CodeTooOften || r.RetryAfter <= 0:
				t.Fatalf("%s's tap %d: %v", owner, i, err)
			}
		}
		return taken
	}
	begin := time.Now()
	if n := retried("eve", evil); n < 10 || n > 10+since(begin, 10*time.Second) {
		t.Errorf("%d of one owner's taps were taken", n)
	}
	l.must(l.client.Del(t.Context(), "tidings:{open}:used").Err())
	retried("ann", few)
	l.idle()
	for i := range few {
		last, err := l.log.Last(t.Context(), []events.Topic{events.NewTopic("ann", fmt.Sprint("s", i), "summary")})
		l.must(err)
		if last[0].Status != events.Completed {
			t.Errorf("another owner's tap %d ended as %s %s", i, last[0].Status, last[0].Reason)
		}
	}
}

// TestOneOwnersKeysAreFew: 2,000 Idempotency-Keys for one job. What is stored
// is bounded; whoever has a key that is, gets the same answer still.
func TestOneOwnersKeysAreFew(t *testing.T) {
	t.Parallel()
	l := newLine(t, modeltest.NewScripted(good()))
	p := l.process(nil)
	p.service.Limits.Owner = ownerShare(p.service.Limits)
	send := func(owner string, key int) (jobs.Accepted, error) {
		return p.send(owner, 0, "some text", func(s *jobs.Submit) { s.IdempotencyKey = fmt.Sprint("key ", key) })
	}
	begin := time.Now()
	first, err := send("eve", 0)
	l.must(err)
	taken := 1
	var wait time.Duration
	for i := range 2_000 {
		a, err := send("eve", i+1)
		switch r := refusal(err); {
		case err == nil && a.JobID == first.JobID && a.Live:
			taken++
		case r == nil || r.Code != jobs.CodeTooOften || r.RetryAfter <= 0 || r.RetryAfter > time.Second:
			t.Fatalf("key %d: %+v %v", i, a, err)
		default:
			wait = r.RetryAfter
		}
	}
	keys, err := l.client.Keys(t.Context(), "*:idempotency:*").Result()
	l.must(err)
	if len(keys) != taken || taken > 100+since(begin, time.Second) || wait == 0 {
		t.Errorf("%d keys are stored, %d were taken", len(keys), taken)
	}
	if a, err := send("eve", 0); err != nil || a.JobID != first.JobID || !a.Replayed {
		t.Errorf("the first key again: %+v %v", a, err)
	}
	if a, err := p.send("eve", 0, "some text", nil); err != nil || a.JobID != first.JobID {
		t.Errorf("the same input without a key: %+v %v", a, err)
	}
	if _, err := send("ann", 0); err != nil {
		t.Errorf("another owner: %v", err)
	}
}

// TestRetryAfterOfAnOwnersRateIsTrue: a second before it is too soon, and then it is
// not; what was no start is given back.
func TestRetryAfterOfAnOwnersRateIsTrue(t *testing.T) {
	t.Parallel()
	inTestbed(t, modeltest.NewScripted(modeltest.Status(500)), nil, func(t *testing.T, h *testbed) {
		h.service.Limits.Owner = jobs.OwnerLimits{Starts: jobs.Rate{Burst: 3, Every: 20 * time.Second}, Retries: jobs.Rate{Burst: 1, Every: time.Minute}}
		h.start()
		var n atomic.Int64
		send := func(text string) error {
			_, err := h.service.Submit(t.Context(), jobs.Submit{Topic: events.NewTopic("eve", fmt.Sprint("s", n.Add(1)), "summary"), Input: jobs.Input{Text: text}})
			return err
		}
		for i := range 3 {
			if err := send("text"); err != nil {
				t.Fatalf("start %d: %v", i, err)
			}
		}
		r := refusal(send("text"))
		if r == nil || r.Code != jobs.CodeTooOften || r.RetryAfter != 20*time.Second {
			t.Fatalf("a fourth start: %+v", r)
		}
		passed(r.RetryAfter - time.Second)
		if err := send("text"); refusal(err) == nil || refusal(err).RetryAfter != time.Second {
			t.Errorf("a second too soon: %v", err)
		}
		passed(time.Second)
		if err := send("text"); err != nil {
			t.Errorf("when it was told to: %v", err)
		}
		passed(time.Minute)
		tap := func(session int) error {
			_, err := h.service.Retry(t.Context(), events.NewTopic("eve", fmt.Sprint("s", session), "summary"))
			return err
		}
		if err := tap(1); err != nil {
			t.Fatal(err)
		}
		r = refusal(tap(2))
		if r == nil || r.Code != jobs.CodeTooOften || r.RetryAfter != time.Minute {
			t.Fatalf("a second tap: %+v", r)
		}
		passed(r.RetryAfter)
		if err := tap(2); err != nil {
			t.Errorf("when it was told to: %v", err)
		}

		// A live job is answered with itself, which starts nothing.
		h.queue.Stop()
		passed(2 * time.Minute)
		for range 10 {
			if _, err := h.service.Submit(t.Context(), jobs.Submit{Topic: events.NewTopic("eve", "same", "summary"), Input: jobs.Input{Text: "the same"}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := send("text"); err != nil {
			t.Errorf("after ten submits of one job: %v", err)
		}
	})
}
