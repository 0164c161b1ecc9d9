package eventstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidings/tidings/events"
)

// Memory is a log in memory that obeys: its live copies can be lost, doubled
// and delayed, its connections cut, its tail lost, and it can be away. It uses
// package time, so it works in virtual time.
type Memory struct {
	fate func(events.Topic, events.Transition) Fate

	mu        sync.Mutex
	topics    map[events.Topic][]events.Transition
	listeners map[*memoryListener]struct{}
	away      bool
	held      bool // confirmations wait
}

// MemoryOptions are a Memory's settings.
type MemoryOptions struct {
	// Fate decides what becomes of each live copy; nil: delivered once, at
	// once. It is called with the log's lock held.
	Fate func(events.Topic, events.Transition) Fate
}

// Fate is what becomes of a live copy.
type Fate struct {
	Copies int // 0: lost; 2: doubled
	Delay  time.Duration
}

// Delivered is the fate of a copy on a good day.
func Delivered() Fate { return Fate{Copies: 1} }

// NewMemory makes an empty log.
func NewMemory(o MemoryOptions) *Memory {
	m := &Memory{
		fate:      o.Fate,
		topics:    make(map[events.Topic][]events.Transition),
		listeners: make(map[*memoryListener]struct{}),
	}
	if m.fate == nil {
		m.fate = func(events.Topic, events.Transition) Fate { return Delivered() }
	}
	return m
}

// Stop makes the log go away: every call fails with events.ErrUnavailable and
// live connections are cut.
func (m *Memory) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = true
	for l := range m.listeners {
		l.cut()
	}
}

// Start brings it back with all it had; listeners reconnect.
func (m *Memory) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = false
	for l := range m.listeners {
		l.confirmAll()
	}
}

// Disconnect cuts every live connection, with the copies that were on their
// way, and lets the listeners reconnect.
func (m *Memory) Disconnect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l := range m.listeners {
		l.cut()
		if !m.away {
			l.confirmAll()
		}
	}
}

// HoldConfirmations lets no new watch be confirmed, and so none of its copies
// arrive, until ReleaseConfirmations.
func (m *Memory) HoldConfirmations() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = true
}

// ReleaseConfirmations ends HoldConfirmations.
func (m *Memory) ReleaseConfirmations() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = false
	for l := range m.listeners {
		l.confirmWaiting()
	}
}

// LoseTail forgets the newest n transitions of a topic, as a fail-over to a
// replica that lagged behind does.
func (m *Memory) LoseTail(topic events.Topic, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.topics[topic]
	m.topics[topic] = all[:max(0, len(all)-n):max(0, len(all)-n)]
}

// Watched is how many topics listeners watch.
func (m *Memory) Watched() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for l := range m.listeners {
		n += len(l.watched)
	}
	return n
}

// Append implements events.Log.
func (m *Memory) Append(ctx context.Context, topic events.Topic, t events.Transition) (events.Transition, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unavailable(ctx); err != nil {
		return events.Transition{}, err
	}
	last := events.Transition{}
	if all := m.topics[topic]; len(all) > 0 {
		last = all[len(all)-1]
	}
	if !events.Follows(last, t) {
		return events.Transition{}, events.ErrIllegal
	}
	now := time.Now()
	t.Seq, t.Prev, t.At = max(now.UnixMilli(), last.Seq+1), last.Seq, now
	stored, err := throughFields(t)
	if err != nil {
		return events.Transition{}, err
	}
	all := append(m.topics[topic], stored)
	m.topics[topic] = all[max(0, len(all)-events.MaxLog):]
	fate := m.fate(topic, stored)
	for l := range m.listeners {
		l.deliver(events.Signal{Topic: topic, Transition: stored}, fate)
	}
	return stored, nil
}

// throughFields gives t the precision that it has when it is stored.
func throughFields(t events.Transition) (events.Transition, error) {
	pairs := t.Fields()
	fields := make(map[string]string, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
	}
	return events.ParseTransition(fields)
}

// After implements events.Log.
func (m *Memory) After(ctx context.Context, topic events.Topic, seq int64) ([]events.Transition, int64, bool, error) {
	answers, err := m.Read(ctx, []events.Ask{{Topic: topic, How: events.Resume, Seq: seq}})
	if err != nil {
		return nil, 0, false, err
	}
	return answers[0].Newer, answers[0].Head.Seq, answers[0].Known, nil
}

// Read implements events.Log.
func (m *Memory) Read(ctx context.Context, asks []events.Ask) ([]events.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unavailable(ctx); err != nil {
		return nil, err
	}
	answers := make([]events.Answer, len(asks))
	for i, a := range asks {
		answers[i] = answer(a, m.topics[a.Topic])
	}
	return answers, nil
}

func answer(a events.Ask, all []events.Transition) events.Answer {
	if len(all) == 0 {
		return events.Answer{Known: a.How == events.Current || a.How == events.Resume && a.Seq == 0}
	}
	newest := clone(all[len(all)-1:])
	from := slices.IndexFunc(all, func(t events.Transition) bool { return t.Seq > a.Seq })
	if from < 0 {
		from = len(all)
	}
	known := true
	switch a.How {
	case events.Current:
		from = len(all) - 1
	case events.Resume:
		known = a.Seq == 0 || from > 0 && all[from-1].Seq == a.Seq
	case events.Since:
		known = a.Seq >= 0 && a.Seq < 1<<53 && (from > 0 || all[0].Prev <= a.Seq)
	}
	if !known {
		return events.Answer{Newer: newest, Head: newest[0]}
	}
	return events.Answer{Newer: clone(all[from:]), Head: newest[0], Known: true}
}

func clone(t []events.Transition) []events.Transition { return append([]events.Transition(nil), t...) }

// Last implements events.Log.
func (m *Memory) Last(ctx context.Context, topics []events.Topic) ([]events.Transition, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unavailable(ctx); err != nil {
		return nil, err
	}
	newest := make([]events.Transition, len(topics))
	for i, topic := range topics {
		if all := m.topics[topic]; len(all) > 0 {
			newest[i] = all[len(all)-1]
		}
	}
	return newest, nil
}

// Now implements events.Log.
func (m *Memory) Now(ctx context.Context) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().UTC(), m.unavailable(ctx)
}

func (m *Memory) unavailable(ctx context.Context) error {
	if m.away {
		return fmt.Errorf("%w: it is stopped", events.ErrUnavailable)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", events.ErrUnavailable, err)
	}
	return nil
}

// Listen implements events.Log.
func (m *Memory) Listen(context.Context) (events.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &memoryListener{
		log:     m,
		wake:    make(chan struct{}, 1),
		watched: make(map[events.Topic]bool),
	}
	m.listeners[l] = struct{}{}
	return l, nil
}

// memoryListener is guarded by its log's lock.
type memoryListener struct {
	log  *Memory
	wake chan struct{}

	watched    map[events.Topic]bool // true: confirmed
	queue      []events.Signal
	connection int // counts cuts: a delayed copy dies with its connection
	closed     bool
}

// maxSignals is how much a listener may leave unread before it is cut off, as
// Redis does.
const maxSignals = 1 << 16

var errClosed = errors.New("eventstest: the listener is closed")

func (l *memoryListener) Watch(topic events.Topic) error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	if l.closed {
		return errClosed
	}
	l.watched[topic] = false
	if !l.log.away {
		l.confirmWaiting()
	}
	return nil
}

func (l *memoryListener) Unwatch(topic events.Topic) error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	delete(l.watched, topic)
	return nil
}

func (l *memoryListener) Receive(ctx context.Context) (events.Signal, error) {
	for {
		if s, ok, err := l.pop(ctx); ok || err != nil {
			return s, err
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
	}
}

func (l *memoryListener) pop(ctx context.Context) (events.Signal, bool, error) {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	switch {
	case l.closed:
		return events.Signal{}, false, errClosed
	case ctx.Err() != nil:
		return events.Signal{}, false, ctx.Err()
	case len(l.queue) == 0:
		return events.Signal{}, false, nil
	}
	s := l.queue[0]
	l.queue = l.queue[1:]
	return s, true, nil
}

func (l *memoryListener) Close() error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	l.closed = true
	delete(l.log.listeners, l)
	l.nudge()
	return nil
}

func (l *memoryListener) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *memoryListener) push(s events.Signal) {
	if len(l.queue) == maxSignals {
		l.cut()
		l.confirmAll()
	}
	l.queue = append(l.queue, s)
	l.nudge()
}

// cut loses the connection.
func (l *memoryListener) cut() {
	l.queue = nil
	l.connection++
	for topic := range l.watched {
		l.watched[topic] = false
	}
}

func (l *memoryListener) confirmAll() {
	for topic := range l.watched {
		l.watched[topic] = false
	}
	l.confirmWaiting()
}

func (l *memoryListener) confirmWaiting() {
	if l.log.held {
		return
	}
	for topic, confirmed := range l.watched {
		if !confirmed {
			l.watched[topic] = true
			l.push(events.Signal{Topic: topic, Watching: true})
		}
	}
}

// deliver passes a copy on as its fate says. It is for those alone who were
// confirmed when it was published.
func (l *memoryListener) deliver(s events.Signal, fate Fate) {
	if !l.watched[s.Topic] {
		return
	}
	arrive := func() {
		if _, ok := l.watched[s.Topic]; ok && !l.closed {
			for range fate.Copies {
				l.push(s)
			}
		}
	}
	if fate.Delay <= 0 {
		arrive()
		return
	}
	connection := l.connection
	time.AfterFunc(fate.Delay, func() {
		l.log.mu.Lock()
		defer l.log.mu.Unlock()
		if l.connection == connection {
			arrive()
		}
	})
}
