package events

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrDeaf is Probe's answer when the storage takes what is published but
// nothing arrives: this process would serve streams that never move.
var ErrDeaf = errors.New("events: the log answers, but what is published does not arrive here")

// probe is a topic that all processes share: each appends to it and waits until
// that, or something newer, has come back. It stays queued for ever.
type probe struct {
	topic     Topic
	confirmed chan struct{}
	// Both guarded by Hub.mu.
	head  int64         // newest that has arrived
	moved chan struct{} // closed, and replaced, when head moves
}

func newProbe() probe {
	return probe{
		topic:     NewTopic("\x00tidings", "probe", "probe"),
		confirmed: make(chan struct{}),
		moved:     make(chan struct{}),
	}
}

func (p *probe) take(s Signal) {
	switch {
	case !s.Watching:
		p.head = s.Transition.Seq
		close(p.moved)
		p.moved = make(chan struct{})
	default:
		select {
		case <-p.confirmed:
		default:
			close(p.confirmed)
		}
	}
}

// Probe publishes a message and waits for its delivery through the hub, on the
// same way that every transition takes. ErrUnavailable: the storage is away,
// which no process can help. ErrDeaf: it answers, but the message does not
// arrive within ProbeWithin; another process may do better.
func (h *Hub) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.o.ProbeWithin)
	defer cancel()
	// A message sent before the subscription would be sent for nothing.
	select {
	case <-h.probe.confirmed:
	case <-h.ended:
		return ErrClosed
	case <-ctx.Done():
		return h.deafOrAway()
	}
	// The connection may be lost just now, and with it the first message.
	every := time.NewTicker(h.o.ProbeWithin / 4)
	defer every.Stop()
	for again := false; ; again = true {
		sent, err := h.log.Append(ctx, h.probe.topic, Transition{Status: Queued, JobID: "probe"})
		if err != nil && again && ctx.Err() != nil {
			return h.deafOrAway()
		}
		if err != nil {
			return err
		}
		for waiting := true; waiting; {
			h.mu.Lock()
			head, moved := h.probe.head, h.probe.moved
			h.mu.Unlock()
			if head >= sent.Seq {
				return nil
			}
			select {
			case <-moved:
			case <-every.C:
				waiting = false
			case <-h.ended:
				return ErrClosed
			case <-ctx.Done():
				return h.deafOrAway()
			}
		}
	}
}

// deafOrAway tells the two apart when nothing has arrived in time.
func (h *Hub) deafOrAway() error {
	ctx, cancel := context.WithTimeout(context.Background(), h.o.ProbeWithin)
	defer cancel()
	if _, err := h.log.Now(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w (waited %s)", ErrDeaf, h.o.ProbeWithin)
}
