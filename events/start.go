package events

import "context"

// begin lets the log be read for a reader whose topic has been confirmed.
func (h *Hub) begin(r *reader) {
	h.starting = append(h.starting, r)
	nudge(h.start)
}

// startLoop is one of the starters: it reads the log for as many new readers as
// have come while the last batch was read. So one that comes alone does not
// wait, and ten thousand at once cost a few round trips.
func (h *Hub) startLoop(ctx context.Context) {
	for ctx.Err() == nil {
		batch, asks := h.takeStarting()
		if len(batch) == 0 {
			select {
			case <-ctx.Done():
			case <-h.start:
			}
			continue
		}
		asked, cancel := context.WithTimeout(ctx, h.o.Patience)
		answers, err := h.log.Read(asked, asks)
		cancel()
		h.started(batch, answers, err)
	}
}

func (h *Hub) takeStarting() (taken []*reader, asks []Ask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(batch, len(h.starting))
	for _, r := range h.starting[:n] {
		if !r.sub.closed {
			taken, asks = append(taken, r), append(asks, Ask{Topic: r.watch.topic, How: r.how, Seq: r.seq})
		}
	}
	if h.starting = h.starting[n:]; len(h.starting) == 0 {
		h.starting = nil
	} else {
		nudge(h.start) // another starter may help
	}
	return taken, asks
}

func (h *Hub) started(batch []*reader, answers []Answer, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range batch {
		if r.sub.closed {
			continue // it did not wait so long
		}
		failed := err
		if err == nil {
			failed = answers[i].Err
		}
		if failed == nil {
			r.start(answers[i])
		} else if r.sub.err == nil {
			r.sub.err = failed
		}
		if r.sub.waiting--; r.sub.waiting == 0 {
			close(r.sub.started)
		}
	}
}
