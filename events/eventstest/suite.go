package eventstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
)

// Suite is what every events.Log must pass. newLog returns a log whose topics
// are empty; it is called once per subtest.
func Suite(t *testing.T, newLog func(*testing.T) events.Log) {
	for _, c := range []struct {
		name string
		test func(*testing.T, events.Log)
	}{
		{"AppendSetsPlaceAndTime", appendSetsPlaceAndTime},
		{"AppendObeysTheStatusTable", appendObeysTheStatusTable},
		{"AppendResolvesAnUnknownOutcome", appendResolvesAnUnknownOutcome},
		{"AppendsAreOneChain", appendsAreOneChain},
		{"EveryFieldSurvives", everyFieldSurvives},
		{"AfterAnswersEveryCursor", afterAnswersEveryCursor},
		{"LogIsTrimmed_I15", logIsTrimmed},
		{"ReadAnswersManyAtOnce", readAnswersManyAtOnce},
		{"LastKeepsTheOrder", lastKeepsTheOrder},
		{"ListenerConfirmsThenDelivers", listenerConfirmsThenDelivers},
		{"ListenerStopsAndStartsAnew", listenerStopsAndStartsAnew},
		{"ReceiveEndsWithItsContext", receiveEndsWithItsContext},
		{"ReceiveEndsWithClose", receiveEndsWithClose},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newLog(t)) })
	}
}

// Step returns a valid transition of a job to a status, for tests that do not
// care for more.
func Step(job string, status events.Status) events.Transition {
	t := events.Transition{Status: status, JobID: job, Attempt: 1, MaxAttempts: 4}
	switch status {
	case events.Queued:
		t.Attempt = 0
	case events.Processing:
		t.Call, t.MaxCalls = 1, 3
	case events.Retrying:
		t.Layer, t.NextAttempt, t.Reason = events.QueueLayer, 2, events.Overloaded
	case events.Completed:
		t.Outcome, t.Version = events.OutcomeCompleted, 1
	case events.Failed:
		t.Outcome, t.Reason, t.CanRetry = events.OutcomeFailed, events.Internal, true
	}
	return t
}

// Append appends steps of one job and fails the test when one is refused.
func Append(t testing.TB, log events.Log, topic events.Topic, job string, statuses ...events.Status) []events.Transition {
	t.Helper()
	var stored []events.Transition
	for _, s := range statuses {
		got, err := log.Append(t.Context(), topic, Step(job, s))
		if err != nil {
			t.Fatalf("append %s: %v", s, err)
		}
		stored = append(stored, got)
	}
	return stored
}

func topicOf(session string) events.Topic { return events.NewTopic("anna", session, "summary") }

func appendSetsPlaceAndTime(t *testing.T, log events.Log) {
	before, err := log.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	step := Step("j1", events.Queued)
	step.Seq, step.Prev, step.At = 7, 5, time.UnixMilli(3) // ours to set, not the caller's
	got, err := log.Append(t.Context(), topicOf("s"), step)
	if err != nil {
		t.Fatal(err)
	}
	after, _ := log.Now(t.Context())
	if got.Prev != 0 || got.Seq != got.At.UnixMilli() {
		t.Errorf("got seq %d, prev %d, at %d; want the time as seq and no predecessor", got.Seq, got.Prev, got.At.UnixMilli())
	}
	if got.At.Before(before.Truncate(time.Millisecond)) || got.At.After(after) {
		t.Errorf("got at %v, want within %v and %v", got.At, before, after)
	}
}

// paths leads to each status by legal steps.
func paths() map[events.Status][]events.Status {
	return map[events.Status][]events.Status{
		events.Idle:       nil,
		events.Queued:     {events.Queued},
		events.Processing: {events.Queued, events.Processing},
		events.Retrying:   {events.Queued, events.Processing, events.Retrying},
		events.Completed:  {events.Queued, events.Processing, events.Completed},
		events.Failed:     {events.Queued, events.Failed},
	}
}

func appendObeysTheStatusTable(t *testing.T, log events.Log) {
	for from, path := range paths() {
		for to := range paths() {
			if to == events.Idle {
				continue
			}
			for _, job := range []string{"j1", "j2"} {
				topic := topicOf(fmt.Sprint(from, "-", to, "-", job))
				Append(t, log, topic, "j1", path...)
				sameJob := job == "j1" && from != events.Idle
				stored, err := log.Append(t.Context(), topic, Step(job, to))
				if events.May(from, to, sameJob) {
					if err != nil {
						t.Errorf("%s to %s, same job %v: %v, want it stored", from, to, sameJob, err)
					}
					continue
				}
				if !errors.Is(err, events.ErrIllegal) {
					t.Errorf("%s to %s, same job %v: got %v, %v, want ErrIllegal", from, to, sameJob, stored, err)
				}
				if newer, _, _, _ := log.After(t.Context(), topic, 0); len(newer) != len(path) {
					t.Errorf("%s to %s: refused but stored: %v", from, to, newer)
				}
			}
		}
	}
}

func appendResolvesAnUnknownOutcome(t *testing.T, log events.Log) {
	for _, to := range []events.Status{events.Completed, events.Failed, events.Processing} {
		topic := topicOf("unknown-" + string(to))
		Append(t, log, topic, "j1", events.Queued, events.Processing)
		unknown := Step("j1", events.Failed)
		unknown.Outcome, unknown.CanRetry = events.OutcomeUnknown, false
		if _, err := log.Append(t.Context(), topic, unknown); err != nil {
			t.Fatal(err)
		}
		_, err := log.Append(t.Context(), topic, Step("j1", to))
		if want := to.Terminal(); (err == nil) != want {
			t.Errorf("unknown outcome to %s: got %v, want allowed: %v", to, err, want)
		}
		if to.Terminal() {
			if _, err := log.Append(t.Context(), topic, Step("j1", to)); !errors.Is(err, events.ErrIllegal) {
				t.Errorf("resolved twice: got %v, want ErrIllegal", err)
			}
		}
	}
}

func appendsAreOneChain(t *testing.T, log events.Log) {
	topic := topicOf("s")
	Append(t, log, topic, "j1", events.Queued, events.Processing)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 10 {
				if _, err := log.Append(t.Context(), topic, Step("j1", events.Processing)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	chain, head, known, err := log.After(t.Context(), topic, 0)
	if err != nil || !known || len(chain) != 82 {
		t.Fatalf("got %d transitions, known %v, %v, want 82", len(chain), known, err)
	}
	prev := int64(0)
	for i, got := range chain {
		if got.Prev != prev || got.Seq <= prev {
			t.Fatalf("transition %d: seq %d, prev %d after seq %d", i, got.Seq, got.Prev, prev)
		}
		prev = got.Seq
	}
	if head != prev {
		t.Errorf("got head %d, want %d", head, prev)
	}
}

func everyFieldSurvives(t *testing.T, log events.Log) {
	topic, ctx := topicOf("s"), t.Context()
	live := listen(t, log, topic)
	full := events.Transition{
		Status: events.Queued, JobID: "01J8ZC3V5QW", Attempt: 1, MaxAttempts: 4,
		DeadlineAt: time.UnixMilli(1775563860001).UTC(), Reason: events.DependencyPaused,
		Outcome: events.OutcomeFailed, Call: 2, MaxCalls: 3, Layer: events.CallLayer,
		NextAttempt: 3, NextCall: 2, NextRetryAt: time.UnixMilli(1775563290000).UTC(),
		NotBefore: time.UnixMilli(1775563300000).UTC(), Version: 1<<53 - 1, CanRetry: true,
		RetryAvailableAt: time.UnixMilli(1775563310999).UTC(),
	}
	stored, err := log.Append(ctx, topic, full)
	if err != nil {
		t.Fatal(err)
	}
	want := full
	want.Seq, want.At = stored.Seq, stored.At
	if stored != want {
		t.Errorf("append returned\n%+v, want\n%+v", stored, want)
	}
	if copied := live.next(t); copied != want {
		t.Errorf("the live copy is\n%+v, want\n%+v", copied, want)
	}
	if newer, _, _, err := log.After(ctx, topic, 0); err != nil || len(newer) != 1 || newer[0] != want {
		t.Errorf("the log has\n%+v (%v), want\n%+v", newer, err, want)
	}
	if last, err := log.Last(ctx, []events.Topic{topic}); err != nil || last[0] != want {
		t.Errorf("the newest is\n%+v (%v), want\n%+v", last, err, want)
	}
}

func afterAnswersEveryCursor(t *testing.T, log events.Log) {
	topic := topicOf("s")
	all := Append(t, log, topic, "j1", events.Queued, events.Processing, events.Processing, events.Completed)
	head := all[3].Seq
	for _, c := range []struct {
		what  string
		topic events.Topic
		seq   int64
		want  []events.Transition
		head  int64
		known bool
	}{
		{"the start", topic, 0, all, head, true},
		{"a place in the log", topic, all[1].Seq, all[2:], head, true},
		{"the head", topic, head, nil, head, true},
		{"beyond the head", topic, head + 1000, all[3:], head, false},
		{"before the log", topic, 1, all[3:], head, false},
		{"a negative one", topic, -5, all[3:], head, false},
		{"the largest", topic, 1<<63 - 1, all[3:], head, false},
		{"the start of an unknown topic", topicOf("none"), 0, nil, 0, true},
		{"a place in an unknown topic", topicOf("none"), 5, nil, 0, false},
	} {
		newer, gotHead, known, err := log.After(t.Context(), c.topic, c.seq)
		if err != nil || gotHead != c.head || known != c.known || !equal(newer, c.want) {
			t.Errorf("%s: got %v, head %d, known %v, %v\nwant %v, head %d, known %v",
				c.what, newer, gotHead, known, err, c.want, c.head, c.known)
		}
	}
}

func logIsTrimmed(t *testing.T, log events.Log) {
	topic := topicOf("s")
	all := Append(t, log, topic, "j1", events.Queued, events.Processing)
	for range events.MaxLog + 50 {
		all = append(all, Append(t, log, topic, "j1", events.Processing)...)
	}
	newer, head, known, err := log.After(t.Context(), topic, 0)
	if err != nil || !known || head != all[len(all)-1].Seq || !equal(newer, all[len(all)-events.MaxLog:]) {
		t.Errorf("got %d transitions, head %d, known %v, %v, want the newest %d", len(newer), head, known, err, events.MaxLog)
	}
	newer, _, known, err = log.After(t.Context(), topic, all[10].Seq)
	if err != nil || known || !equal(newer, all[len(all)-1:]) {
		t.Errorf("a trimmed place: got %d transitions, known %v, %v, want the newest alone, not known", len(newer), known, err)
	}
}

func readAnswersManyAtOnce(t *testing.T, log events.Log) {
	topic, long := topicOf("s"), topicOf("long")
	all := Append(t, log, topic, "j1", events.Queued, events.Processing, events.Processing, events.Completed)
	head := all[3].Seq
	trimmed := Append(t, log, long, "j1", events.Queued)
	for range events.MaxLog + 10 {
		trimmed = append(trimmed, Append(t, log, long, "j1", events.Processing)...)
	}
	kept := trimmed[len(trimmed)-events.MaxLog:]
	newest := kept[len(kept)-1:]
	cases := []struct {
		what  string
		topic events.Topic
		how   events.How
		seq   int64
		want  []events.Transition
		head  int64
		known bool
	}{
		{"how it stands", topic, events.Current, 0, all[3:], head, true},
		{"how it stands, unknown", topicOf("none"), events.Current, 0, nil, 0, true},
		{"resumed at a place", topic, events.Resume, all[1].Seq, all[2:], head, true},
		{"resumed at the head", topic, events.Resume, head, nil, head, true},
		{"resumed from the start", topic, events.Resume, 0, all, head, true},
		{"resumed beyond the head", topic, events.Resume, head + 1000, all[3:], head, false},
		{"resumed in an unknown topic", topicOf("none"), events.Resume, 5, nil, 0, false},
		{"since long ago", topic, events.Since, 1, all, head, true},
		{"since the first", topic, events.Since, all[0].Seq, all[1:], head, true},
		{"since the head", topic, events.Since, head, nil, head, true},
		{"since after the head", topic, events.Since, head + 1000, nil, head, true},
		{"since a negative time", topic, events.Since, -1, all[3:], head, false},
		{"since a time that is none", topic, events.Since, 1<<63 - 1, all[3:], head, false},
		{"since a time in an unknown topic", topicOf("none"), events.Since, 5, nil, 0, false},
		{"since the first of what is left", long, events.Since, kept[0].Seq, kept[1:], newest[0].Seq, true},
		{"since the last of what was trimmed", long, events.Since, kept[0].Prev, kept, newest[0].Seq, true},
		{"since before that", long, events.Since, kept[0].Prev - 1, newest, newest[0].Seq, false},
	}
	var asks []events.Ask
	for _, c := range cases {
		asks = append(asks, events.Ask{Topic: c.topic, How: c.how, Seq: c.seq})
	}
	answers, err := log.Read(t.Context(), asks)
	if err != nil || len(answers) != len(cases) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i, c := range cases {
		if a := answers[i]; a.Err != nil || a.Head.Seq != c.head || a.Known != c.known || !equal(a.Newer, c.want) {
			t.Errorf("%s: got %v, head %d, known %v, %v\nwant %v, head %d, known %v",
				c.what, a.Newer, a.Head.Seq, a.Known, a.Err, c.want, c.head, c.known)
		}
	}
	if answers, err := log.Read(t.Context(), nil); err != nil || len(answers) != 0 {
		t.Errorf("no questions: got %v, %v", answers, err)
	}
}

func lastKeepsTheOrder(t *testing.T, log events.Log) {
	var topics []events.Topic
	want := make([]events.Transition, 1100)
	for i := range want {
		topics = append(topics, topicOf(fmt.Sprint("s", i)))
		if i%100 == 0 {
			want[i] = Append(t, log, topics[i], "j1", events.Queued, events.Processing)[1]
		}
	}
	got, err := log.Last(t.Context(), topics)
	if err != nil || !equal(got, want) {
		t.Errorf("got %d transitions, %v; want each topic's newest in its place", len(got), err)
	}
	if got, err := log.Last(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("no topics: got %v, %v", got, err)
	}
}

func listenerConfirmsThenDelivers(t *testing.T, log events.Log) {
	topic, other := topicOf("s"), topicOf("other")
	live := listen(t, log, topic)
	Append(t, log, other, "j9", events.Queued)
	for _, want := range Append(t, log, topic, "j1", events.Queued, events.Processing, events.Completed) {
		if got := live.next(t); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func listenerStopsAndStartsAnew(t *testing.T, log events.Log) {
	topic, fence := topicOf("s"), topicOf("fence")
	live := listen(t, log, topic)
	if err := live.Unwatch(topic); err != nil {
		t.Fatal(err)
	}
	live.watch(t, fence) // confirmed after the unwatch
	Append(t, log, topic, "j1", events.Queued)
	want := Append(t, log, fence, "j1", events.Queued)[0]
	if got := live.next(t); got != want {
		t.Errorf("got %+v, want only what is watched", got)
	}
	live.watch(t, topic)
	live.watch(t, topic) // asking again is confirmed again
	want = Append(t, log, topic, "j1", events.Processing)[0]
	got := live.next(t)
	for got.Seq < want.Seq { // it was under way before: on a Cluster copies take their time
		got = live.next(t)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func receiveEndsWithItsContext(t *testing.T, log events.Log) {
	topic := topicOf("s")
	live := listen(t, log, topic)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := live.Receive(ctx)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
	// The listener is still good. What came in between may be lost, and then
	// the watch is confirmed anew.
	live.watch(t, topic)
	want := Append(t, log, topic, "j1", events.Queued)[0]
	if got := live.next(t); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func receiveEndsWithClose(t *testing.T, log events.Log) {
	live := listen(t, log, topicOf("s"))
	ended := make(chan error)
	go func() {
		_, err := live.Receive(t.Context())
		ended <- err
	}()
	if err := live.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a receive goes on after close")
	}
	if err := live.Watch(topicOf("s")); err == nil {
		t.Error("a closed listener takes a watch")
	}
	_ = live.Close() // twice does no harm
}

// listener is an events.Listener with a patience.
type listener struct{ events.Listener }

func listen(t *testing.T, log events.Log, topics ...events.Topic) listener {
	t.Helper()
	inner, err := log.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	l := listener{inner}
	for _, topic := range topics {
		l.watch(t, topic)
	}
	return l
}

func (l listener) receive(t *testing.T) events.Signal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := l.Receive(ctx)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return s
}

// watch returns once the topic is confirmed.
func (l listener) watch(t *testing.T, topic events.Topic) {
	t.Helper()
	if err := l.Watch(topic); err != nil {
		t.Fatal(err)
	}
	for {
		if s := l.receive(t); s.Watching && s.Topic == topic {
			return
		}
	}
}

// next skips confirmations.
func (l listener) next(t *testing.T) events.Transition {
	t.Helper()
	for {
		if s := l.receive(t); !s.Watching {
			return s.Transition
		}
	}
}

func equal(a, b []events.Transition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
