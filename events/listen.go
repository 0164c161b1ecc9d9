package events

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// errClosed ends a Receive on a closed listener.
var errClosed = errors.New("events: the listener is closed")

// health says when a silent live connection is asked for a sign of life, and
// how long after that it counts as dead.
type health struct{ pingEvery, deadAfter time.Duration }

// redisListener is one pub/sub connection. Receive reads it in the caller's
// goroutine without go-redis' channel in between: that one is full after 100
// messages and then drops. A second goroutine, run, does everything that
// writes, so that Watch never waits for the network.
//
// go-redis reconnects and subscribes anew by itself when it sees an error; the
// confirmations that follow are our sign that copies may be missing. What it
// does not see is a connection that went silent, which run replaces, and a
// SUBSCRIBE lost with its connection, which run repeats.
type redisListener struct {
	client redis.UniversalClient
	health health
	cancel context.CancelFunc // ends run
	ended  chan struct{}      // closed when run has returned
	wake   chan struct{}      // something is pending

	mu      sync.Mutex
	closed  bool
	conn    *redis.PubSub
	watched map[string]Topic    // by channel
	pending map[string]struct{} // channels whose subscription is to be brought in line with watched
	heard   time.Time           // when the connection last gave a sign of life
}

// Listen implements Log. It needs no Redis yet.
func (l *RedisLog) Listen(context.Context) (Listener, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &redisListener{
		client:  l.client,
		health:  l.health,
		cancel:  cancel,
		ended:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
		conn:    l.client.Subscribe(ctx),
		watched: make(map[string]Topic),
		pending: make(map[string]struct{}),
		heard:   time.Now(),
	}
	go r.run(ctx)
	return r, nil
}

func (r *redisListener) Watch(topic Topic) error {
	return r.want(func() {
		r.watched[topic.Key("live")] = topic
		r.pending[topic.Key("live")] = struct{}{}
	})
}

func (r *redisListener) Unwatch(topic Topic) error {
	return r.want(func() {
		delete(r.watched, topic.Key("live"))
		r.pending[topic.Key("live")] = struct{}{}
	})
}

func (r *redisListener) want(change func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	change()
	r.nudge()
	return nil
}

func (r *redisListener) nudge() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Receive implements Listener. A ctx that ends costs the connection, since
// nothing else interrupts a read; the next Receive has a new one.
func (r *redisListener) Receive(ctx context.Context) (Signal, error) {
	for failures := 0; ; {
		r.mu.Lock()
		conn, closed := r.conn, r.closed
		r.mu.Unlock()
		if closed {
			return Signal{}, errClosed
		}
		if ctx.Err() != nil {
			return Signal{}, ctx.Err()
		}
		stop := context.AfterFunc(ctx, func() { r.replace(conn) })
		message, err := conn.Receive(ctx)
		stop()
		r.mu.Lock()
		r.heard = time.Now() // an error too: it is being dealt with
		r.mu.Unlock()
		if err != nil {
			if failures > 0 {
				pause(ctx, r.ended, min(50*time.Millisecond<<min(failures, 5), time.Second))
			}
			failures++
			continue
		}
		failures = 0
		if s, ok := r.signal(message); ok {
			return s, nil
		}
	}
}

// signal turns what the connection said into a Signal, if it is one.
func (r *redisListener) signal(message any) (Signal, bool) {
	switch m := message.(type) {
	case *redis.Subscription:
		topic, ok := r.topic(m.Channel)
		return Signal{Topic: topic, Watching: true}, ok && m.Kind == "subscribe"
	case *redis.Message:
		topic, ok := r.topic(m.Channel)
		if !ok {
			return Signal{}, false
		}
		var fields map[string]string
		if json.Unmarshal([]byte(m.Payload), &fields) != nil {
			return Signal{}, false // not ours; were it one, the log has it
		}
		t, err := ParseTransition(fields)
		return Signal{Topic: topic, Transition: t}, err == nil
	}
	return Signal{}, false
}

func (r *redisListener) topic(channel string) (Topic, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	topic, ok := r.watched[channel]
	return topic, ok
}

// Close implements Listener.
func (r *redisListener) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		<-r.ended
		return nil
	}
	r.closed = true
	conn := r.conn
	r.mu.Unlock()
	r.cancel()
	err := conn.Close()
	<-r.ended
	return err
}

// replace gives up a connection and asks for everything again on a new one.
func (r *redisListener) replace(old *redis.PubSub) {
	r.mu.Lock()
	if r.closed || r.conn != old {
		r.mu.Unlock()
		return
	}
	r.conn = r.client.Subscribe(context.Background()) // without channels: no network yet
	r.heard = time.Now()
	for channel := range r.watched {
		r.pending[channel] = struct{}{}
	}
	r.nudge()
	r.mu.Unlock()
	_ = old.Close() // ends the read that hangs on it
}

// run subscribes, unsubscribes and pings until Close.
func (r *redisListener) run(ctx context.Context) {
	defer close(r.ended)
	ping := time.NewTicker(r.health.pingEvery)
	defer ping.Stop()
	for failures := 0; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-ping.C:
			r.checkHealth(ctx)
		case <-r.wake:
			if r.flush(ctx) {
				failures = 0
				continue
			}
			pause(ctx, nil, min(50*time.Millisecond<<min(failures, 5), time.Second))
			failures++
			r.nudge()
		}
	}
}

// flush brings the pending channels in line, a batch per command, and tells
// whether that worked.
func (r *redisListener) flush(ctx context.Context) bool {
	for ctx.Err() == nil {
		var on, off []string
		r.mu.Lock()
		conn := r.conn
		for channel := range r.pending {
			if _, ok := r.watched[channel]; ok {
				on = append(on, channel)
			} else {
				off = append(off, channel)
			}
			delete(r.pending, channel)
			if len(on)+len(off) == batch {
				break
			}
		}
		r.mu.Unlock()
		if len(on)+len(off) == 0 {
			return true
		}
		// A failed UNSUBSCRIBE needs no second try: the connection is lost and
		// the next one does not ask for these channels.
		if len(off) > 0 {
			_ = conn.Unsubscribe(ctx, off...)
		}
		if len(on) > 0 && conn.Subscribe(ctx, on...) != nil {
			r.mu.Lock()
			for _, channel := range on {
				r.pending[channel] = struct{}{}
			}
			r.mu.Unlock()
			return false
		}
	}
	return true
}

func (r *redisListener) checkHealth(ctx context.Context) {
	r.mu.Lock()
	conn, silent := r.conn, time.Since(r.heard)
	r.mu.Unlock()
	switch {
	case silent > r.health.pingEvery+r.health.deadAfter:
		r.replace(conn)
	case silent >= r.health.pingEvery:
		_ = conn.Ping(ctx)
	}
}

// pause waits for d, or less when ctx or ended ends before.
func pause(ctx context.Context, ended <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-ended:
	}
}
