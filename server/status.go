package server

import (
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
	ask := events.Ask{Topic: topic}
	if from.given {
		ask = events.Ask{Topic: topic, How: events.Resume, Seq: from.place()}
	}
	s.stream(c, &feed{lang: callOf(c).lang, from: from, follow: follow}, ask)
}

// stream answers with the status as it changes, of one topic or of many.
func (s *Server) stream(c *gin.Context, f *feed, asks ...events.Ask) {
	head := c.Request.Method == http.MethodHead
	mayEnd := f.from.known && !f.follow
	if head && !mayEnd {
		streamHeaders(c.Writer.Header())
		c.Status(http.StatusOK)
		return
	}
	f.render, f.count = s.render, s.metrics
	s.openStream(c, func(l line) (source, error) {
		var err error
		if f.sub, err = s.o.Hub.Follow(c.Request.Context(), l, asks...); err != nil {
			return nil, err
		}
		// 204 is the one answer that stops every kind of client from asking again.
		if ended := mayEnd && f.sub.Ended(); ended || head {
			f.close()
			streamHeaders(c.Writer.Header())
			if ended {
				c.Writer.Header().Del("Content-Type")
				c.Status(http.StatusNoContent)
			}
			return nil, nil
		}
		return f, nil
	})
}

// openStream answers with a stream of what begin returns, or not at all if that is
// nil: then begin has answered. The entry in the registry is taken before the
// source is made; from then on it is the line's.
func (s *Server) openStream(c *gin.Context, begin func(line) (source, error)) {
	k := callOf(c)
	l := s.line(c)
	st, err := s.streams.admit(k.who, l)
	if err != nil {
		s.fail(c, err)
		return
	}
	opened := false
	defer func() {
		if !opened {
			st.leave()
		}
	}()
	src, err := begin(l)
	if err != nil {
		s.fail(c, err)
		return
	}
	if src == nil {
		return
	}
	st.call, k.taken, opened = k, true, true
	st.play(src)
	l.open(c.Writer, c.Request, st)
}

// line is how the stream of a request gets to its reader.
func (s *Server) line(c *gin.Context) line {
	if conn := s.parking.fit(c.Request); conn != nil {
		return s.parking.line(conn)
	}
	return s.emitter.line(c.Request)
}

// streamEnded writes the log line of a stream that was open.
func (s *Server) streamEnded(st *stream, why string) {
	s.finish(st.call, http.StatusOK, st.written, slog.String("end", why), slog.Int("events", st.events))
}

// place is the cursor as the hub takes it. One that is not of our making is in
// no log, and gets what that gets: the current state, marked as reset.
func (c cursor) place() int64 {
	if !c.known {
		return -1
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
		topics[i] = s.topicFor(callOf(c).who.Owner, id, workload)
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
	asJSON, asStream := accepted(accept, "application", "json"), accepted(accept, "text", "event-stream")
	if asJSON.quality <= 0 && asStream.quality <= 0 {
		return false, &problem{code: codeNotAcceptable}
	}
	if asJSON.quality != asStream.quality {
		return asJSON.quality > asStream.quality, nil
	}
	return asJSON.specific > asStream.specific, nil
}

// acceptance is what an Accept header says of one media type.
type acceptance struct {
	specific int // of the entry that counts: 3 the type itself, 2 "type/*", 1 "*/*", 0 none
	quality  float64
}

// accepted finds the entry that counts, the most specific one (RFC 9110, 12.5.1).
func accepted(accept, main, sub string) (found acceptance) {
	for entry := range strings.SplitSeq(accept, ",") {
		media, params, _ := strings.Cut(entry, ";")
		a := acceptance{quality: quality(params)}
		switch strings.ToLower(strings.TrimSpace(media)) {
		case main + "/" + sub:
			a.specific = 3
		case main + "/*":
			a.specific = 2
		case "*/*":
			a.specific = 1
		default:
			continue
		}
		if a.specific > found.specific || a.specific == found.specific && a.quality > found.quality {
			found = a
		}
	}
	return found
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
