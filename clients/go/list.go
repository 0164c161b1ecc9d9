package tidings

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"
)

// List follows many sessions on one stream: for pages that list them, and for clients
// that must not hold a connection for each. It lives until Close or the end of its
// context: jobs that end do not end it. All methods are safe for concurrent use.
type List struct {
	stream  *Session
	items   map[[2]string]*item // by session and workload; touched by the stream's loop alone
	updates chan map[string]Status

	mu        sync.Mutex
	newest    map[string]Status
	published bool
}

// item is one session of a list.
type item struct {
	view
	name    string // as the app wrote it
	id      string
	lastSeq int64
	jobID   string
}

// OpenAll starts to follow up to 100 sessions of one owner, each written as "id", for the
// client's workload, or as "id/workload". It returns at once; ctx bounds the List's life.
// For other sessions open another List. A session without a job has the event idle.
func (c *Client) OpenAll(ctx context.Context, sessions ...string) *List {
	l := &List{items: make(map[[2]string]*item), updates: make(chan map[string]Status, 1), newest: make(map[string]Status)}
	query := url.Values{}
	for _, name := range sessions {
		id, workload, ok := strings.Cut(name, "/")
		if !ok {
			workload = c.workload
		}
		v, _ := newView(c, id, workload)
		l.items[[2]string{id, workload}] = &item{view: v, name: name, id: id, lastSeq: -1}
		l.newest[name] = v.status(nil)
		query.Add("session", id+"/"+workload)
	}
	// The connection's own machine: it takes each event as one without a meaning.
	l.stream = c.open(ctx, "", "/api/v1/status/stream?"+query.Encode(), l)
	return l
}

// WatchAll follows up to 100 sessions on one stream, written as for [Client.OpenAll]. Each time one changes it gives the
// status of all, by the names they were given with. It ends when the server refuses the
// stream, with an *HTTPError, or with ctx, with its error.
func (c *Client) WatchAll(ctx context.Context, sessions ...string) iter.Seq2[map[string]Status, error] {
	return func(yield func(map[string]Status, error) bool) {
		l := c.OpenAll(ctx, sessions...)
		defer l.Close()
		for statuses := range l.Updates() {
			for _, status := range statuses {
				if status.Connection == Closed && status.Problem != nil {
					yield(statuses, status.Problem)
					return
				}
			}
			if !yield(statuses, nil) {
				return
			}
		}
		yield(l.Statuses(), ctx.Err())
	}
}

// Updates delivers the status of all sessions after each change. It holds one: a reader
// that is slower than the stream gets the newest. It is closed with the list. The maps
// must not be changed.
func (l *List) Updates() <-chan map[string]Status { return l.updates }

// Statuses is the newest status of all sessions; it must not be changed.
func (l *List) Statuses() map[string]Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

// Foreground is [Session.Foreground].
func (l *List) Foreground() { l.stream.Foreground() }

// Close drops the stream and waits until nothing of the list runs any more.
func (l *List) Close() { l.stream.Close() }

// take gives each session what concerns it, and returns what concerns the connection.
func (l *List) take(in Input) Input {
	switch {
	case in.Kind == OnEvent:
		data := readObject(in.Message.Data)
		if i := l.items[[2]string{data.text("session_id"), data.text("workload")}]; i != nil && known(in.Message.Event) {
			i.take(in, readEvent(in.Message.Event, data))
		}
		in.Message = Message{ID: in.Message.ID, Event: "message"}
	case in.Kind == OnTick, in.Kind == OnDisconnect && refused(in.Status):
		for _, i := range l.items {
			i.apply(in)
		}
	case in.Kind == OnOpen:
		for _, i := range l.items {
			i.checking = false
		}
	}
	return in
}

// take applies an event. After a return some come again. A new job has a machine of its
// own: the one before may have come to its end.
func (i *item) take(in Input, e Event) {
	if e.Reset {
		i.lastSeq = -1
	}
	if e.Seq > 0 && e.Seq <= i.lastSeq {
		return
	}
	if e.JobID != i.jobID {
		i.view, _ = newView(i.client, i.id, e.Workload)
	}
	i.jobID, i.lastSeq = e.JobID, max(e.Seq, i.lastSeq)
	i.apply(in)
}

// checks tells whether a countdown of any session has run out without news.
func (l *List) checks() bool {
	some := false
	for _, i := range l.items {
		some = i.checks() || some
	}
	return some
}

// wake is when any session changes with time alone.
func (l *List) wake() (next time.Time) {
	for _, i := range l.items {
		next = earlier(next, i.view.wake(0))
	}
	return next
}

// publish makes the newest statuses known, if they differ. The connection is one for all.
func (l *List) publish(connection Status) {
	next := make(map[string]Status, len(l.items))
	for _, i := range l.items {
		s := i.status(connection.Problem)
		s.Connection, s.ResubscribeAt, s.LastEventID = connection.Connection, connection.ResubscribeAt, connection.LastEventID
		next[i.name] = s
	}
	l.mu.Lock()
	news := !l.published || !maps.Equal(l.newest, next)
	l.newest, l.published = next, true
	l.mu.Unlock()
	if !news {
		return
	}
	select {
	case <-l.updates: // nobody has read the one before
	default:
	}
	l.updates <- next
}
