package server

import (
	"context"
	"strconv"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/locales"
)

// feed is what one stream sends: a subscription, rendered for its reader.
type feed struct {
	sub    *events.Subscription
	render *renderer
	count  *metrics

	lang   locales.Language
	from   cursor // the client's place; of many topics the newest sent
	many   bool   // topics: ids are the place of them all
	follow bool   // go on after terminal events
	sent   int    // events that the response has taken
}

// frame is one event, ready to be written.
type frame struct {
	id    string // "" for none
	event string
	data  []byte // one line
	last  bool   // nothing comes after it
	live  bool
	at    time.Time
}

// next waits for the next frame. It fails with ctx, or when the hub has
// ended.
func (f *feed) next(ctx context.Context) (frame, error) {
	e, err := f.sub.Next(ctx)
	// The end of a job that its own submitter replaced is nobody's end: the next
	// transition is the new job's (docs/decisions/0003).
	for err == nil && e.ReplacedBy != "" && (!f.follow || f.many) {
		e, err = f.sub.Next(ctx)
	}
	if err != nil {
		return frame{}, err
	}
	form := form{lang: f.lang, reset: e.Reset}
	if e.Idle {
		data, err := f.render.idle(e.Topic, form)
		return frame{id: f.place(), event: string(events.Idle), data: data}, err
	}
	make := func() ([]byte, error) { return f.render.event(e.Topic, e.Transition, form) }
	var data []byte
	if e.Live && !e.Reset {
		data, err = f.render.live.data(frameKey{e.Topic, e.Seq, form.lang}, make)
	} else {
		data, err = make()
	}
	id := strconv.FormatInt(e.Seq, 10)
	if f.many {
		f.from = cursor{given: true, known: true, seq: max(f.from.seq, e.Seq)}
		id = f.place()
	}
	return frame{
		id: id, event: string(e.Status), data: data,
		// A terminal event that is replayed before a newer job's is not the end.
		last: e.Status.Terminal() && e.Newest && !f.follow,
		live: e.Live, at: e.At,
	}, err
}

// place is the client's: nothing has happened since, where there is no job, so
// an idle frame keeps it.
func (f *feed) place() string {
	if !f.from.known {
		return ""
	}
	return strconv.FormatInt(f.from.seq, 10)
}

// took is told of each frame that the response has taken.
func (f *feed) took(fr frame) {
	f.sent++
	f.count.sent.WithLabelValues(fr.event).Inc()
	if fr.live {
		f.count.delivery.Observe(max(f.render.now().Sub(fr.at), 0).Seconds())
	}
}
