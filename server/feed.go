package server

import (
	"strconv"

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
}

// next implements source.
func (f *feed) next() (frame, bool, error) {
	e, ok, err := f.sub.Take()
	// The end of a job that its own submitter replaced is nobody's end: the next
	// transition is the new job's (docs/decisions/0003).
	for ok && e.ReplacedBy != "" && (!f.follow || f.many) {
		e, ok, err = f.sub.Take()
	}
	if !ok || err != nil {
		return frame{}, false, err
	}
	fr, err := f.frame(e)
	return fr, err == nil, err
}

func (f *feed) frame(e events.Event) (frame, error) {
	form := form{lang: f.lang, reset: e.Reset}
	if e.Idle {
		data, err := f.render.idle(e.Topic, form)
		return frame{id: f.place(), event: string(events.Idle), data: data}, err
	}
	render := func() ([]byte, error) { return f.render.event(e.Topic, e.Transition, form) }
	var data []byte
	var err error
	if e.Live && !e.Reset && e.Shared {
		data, err = f.render.live.data(frameKey{e.Topic, e.Seq, form.lang}, render)
	} else {
		data, err = render()
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

func (f *feed) follows(topic events.Topic) bool { return f.sub.Follows(topic) }

func (f *feed) close() { f.sub.Close() }

// took implements source.
func (f *feed) took(fr frame) {
	f.count.sent.WithLabelValues(fr.event).Inc()
	if fr.live {
		f.count.delivery.Observe(max(f.render.now().Sub(fr.at), 0).Seconds())
	}
}
