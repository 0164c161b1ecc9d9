package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

const maxSessions = 50

// status answers with a session's status: once, as JSON, or as a stream.
func (s *Server) status(c *gin.Context) {
	topic, err := s.topic(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	follow, err := switched(c, "follow")
	if err != nil {
		s.fail(c, err)
		return
	}
	asJSON, err := wantsJSON(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.localized(c)
	if asJSON {
		s.statusOnce(c, topic)
		return
	}
	from := cursorOf(c.GetHeader("Last-Event-ID"), c.Query("last_event_id"))
	if from.known && !follow {
		done, err := s.nothingLeft(c.Request.Context(), topic, from)
		if err != nil {
			s.fail(c, err)
			return
		}
		if done {
			c.Header("Cache-Control", "no-cache, no-transform")
			c.Status(http.StatusNoContent)
			return
		}
	}
	if c.Request.Method == http.MethodHead {
		streamHeaders(c.Writer.Header())
		c.Status(http.StatusOK)
		return
	}
	s.stream(c, topic, from, follow)
}

// nothingLeft tells whether the client has seen the end already. 204 is the one
// answer that stops every kind of client from asking again.
func (s *Server) nothingLeft(ctx context.Context, topic events.Topic, from cursor) (bool, error) {
	last, err := s.o.Hub.Last(ctx, []events.Topic{topic})
	if err != nil {
		return false, err
	}
	return last[0].Status.Terminal() && last[0].Seq == from.seq, nil
}

// stream answers with the status as it changes. The entry in the registry is
// taken before the subscription and released by finish alone.
func (s *Server) stream(c *gin.Context, topic events.Topic, from cursor, follow bool) {
	k := callOf(c)
	st, err := s.streams.admit(c.Request.Context(), k.who, topic)
	if err != nil {
		s.fail(c, err)
		return
	}
	sub, err := s.o.Hub.Subscribe(st.ctx, topic, from.place(), from.given)
	if err != nil {
		st.release()
		s.fail(c, err)
		return
	}
	f := &feed{sub: sub, render: s.render, count: s.metrics, topic: topic, form: form{lang: k.lang}, from: from, follow: follow}
	k.taken = true
	finish := func(written int64) {
		sub.Close()
		st.end(&ending{why: endFault}) // a no-op unless a panic got here first
		why := st.why().why
		st.release()
		s.metrics.ended.WithLabelValues(why).Inc()
		s.finish(k, http.StatusOK, written, slog.String("end", why), slog.Int("events", f.sent))
	}
	var written int64
	defer func() { finish(written) }()
	written = s.emitter.emit(raw(c.Writer), st, f)
	if st.why().why == endCut {
		panic(http.ErrAbortHandler) // net/http drops the connection in the middle of the answer
	}
}

// place is the cursor as the hub takes it. One that is not of our making lies
// beyond every log, and gets what that gets: the current state, marked as reset.
func (c cursor) place() int64 {
	if c.given && !c.known {
		return maxCursor
	}
	return c.seq
}

// raw is the writer beneath gin's, which gin uses again for other requests.
func raw(w gin.ResponseWriter) http.ResponseWriter {
	if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return u.Unwrap()
	}
	return w
}

// statusOnce answers with the latest event.
func (s *Server) statusOnce(c *gin.Context, topic events.Topic) {
	last, err := s.o.Hub.Last(c.Request.Context(), []events.Topic{topic})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Header("Cache-Control", "private, no-cache")
	tag := fmt.Sprintf("%d-%s", last[0].Seq, callOf(c).lang)
	if last[0].Status == events.Retrying {
		c.Header("ETag", strconv.Quote(tag)) // never a 304: its remaining time moves
	} else if unchanged(c, tag) {
		return
	}
	b, err := s.render.event(topic, last[0], form{lang: callOf(c).lang, named: true})
	if err != nil {
		s.fail(c, err)
		return
	}
	c.Data(http.StatusOK, "application/json", b)
}

// statusList answers with many sessions' latest events, for list screens.
func (s *Server) statusList(c *gin.Context) {
	workload := c.DefaultQuery("workload", "summary")
	if _, ok := jobs.WorkloadNamed(workload); !ok {
		s.fail(c, &problem{code: codeUnknownWorkload})
		return
	}
	ids := strings.Split(strings.Join(c.QueryArray("sessions"), ","), ",")
	if len(ids) > maxSessions {
		s.fail(c, &problem{code: codeInvalidQuery, field: "sessions", hint: fmt.Sprintf("more than %d", maxSessions)})
		return
	}
	topics := make([]events.Topic, len(ids))
	for i, id := range ids {
		if !validSession(id) {
			s.fail(c, &problem{code: codeInvalidQuery, field: "sessions", hint: "session ids, separated by commas"})
			return
		}
		topics[i] = events.NewTopic(callOf(c).who.Owner, id, workload)
	}
	last, err := s.o.Hub.Last(c.Request.Context(), topics)
	if err != nil {
		s.fail(c, err)
		return
	}
	list := statusListJSON{ServerTime: stamp{s.o.Hub.Now()}, Statuses: make([]json.RawMessage, len(last))}
	for i, t := range last {
		if list.Statuses[i], err = s.render.event(topics[i], t, form{lang: callOf(c).lang, named: true}); err != nil {
			s.fail(c, err)
			return
		}
	}
	s.localized(c)
	c.Header("Cache-Control", "private, no-cache")
	s.json(c, http.StatusOK, list)
}

type statusListJSON struct {
	ServerTime stamp             `json:"server_time"`
	Statuses   []json.RawMessage `json:"statuses"` // in the order asked for
}

// wantsJSON tells which of the two forms the caller asks for. A stream is the
// default: EventSource cannot be told to ask for anything else.
func wantsJSON(c *gin.Context) (bool, error) {
	switch c.Query("format") {
	case "json":
		return true, nil
	case "sse":
		return false, nil
	case "":
	default:
		return false, &problem{code: codeInvalidQuery, field: "format", hint: "json or sse"}
	}
	accept := strings.Join(c.Request.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return false, nil
	}
	asJSON, asStream := -1.0, -1.0
	for entry := range strings.SplitSeq(accept, ",") {
		media, params, _ := strings.Cut(entry, ";")
		q := quality(params)
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "application/json", "application/*":
			asJSON = max(asJSON, q)
		case "text/event-stream", "text/*", "*/*":
			asStream = max(asStream, q)
		}
	}
	if max(asJSON, asStream) <= 0 {
		return false, &problem{code: codeNotAcceptable}
	}
	return asJSON > asStream, nil
}

// quality reads an Accept entry's weight; a broken one counts as none given.
func quality(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		if q, err := strconv.ParseFloat(v, 64); err == nil && q >= 0 && q <= 1 {
			return q
		}
	}
	return 1
}
