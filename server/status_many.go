package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
)

const (
	maxFollowed = 100
	// overlap is how far before a client's place many topics are read again. The
	// events of one topic overtake those of another by less.
	overlap = 5 * time.Second
)

// statusStream answers with many sessions' statuses as they change, on one
// stream. Its place is the time of the newest event that it has sent, so it does
// not say what a client has seen of each session: a client that comes back gets
// some events twice, and drops what is not newer.
func (s *Server) statusStream(c *gin.Context) {
	topics, err := s.followed(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.localized(c)
	from := cursorOf(c.GetHeader("Last-Event-ID"), c.Query("last_event_id"))
	asks := make([]events.Ask, len(topics))
	for i, topic := range topics {
		asks[i] = events.Ask{Topic: topic}
		if from.given {
			asks[i] = events.Ask{Topic: topic, How: events.Since, Seq: s.since(from)}
		}
	}
	s.stream(c, &feed{lang: callOf(c).lang, from: from, follow: true, many: true}, asks...)
}

// since is where to read on from. A place that is none, or that is still to
// come, is no time that anything can be newer than: every session gets its
// current state, marked as reset.
func (s *Server) since(from cursor) int64 {
	if !from.known || from.seq > s.o.Hub.Now().Add(overlap).UnixMilli() {
		return -1
	}
	return max(from.seq-overlap.Milliseconds(), 0)
}

// followed reads the sessions, each once.
func (s *Server) followed(c *gin.Context) ([]events.Topic, error) {
	names := c.QueryArray("session")
	if len(names) == 0 || len(names) > maxFollowed {
		return nil, &problem{code: codeInvalidQuery, field: "session", hint: fmt.Sprintf("1 to %d of them", maxFollowed)}
	}
	topics := make([]events.Topic, 0, len(names))
	for _, name := range names {
		id, workload, given := strings.Cut(name, "/")
		if !given {
			workload = "summary"
		}
		w, ok := jobs.WorkloadNamed(workload)
		switch {
		case !validSession(id):
			return nil, &problem{code: codeInvalidQuery, field: "session", hint: "session=ID or session=ID/WORKLOAD, once for each"}
		case !ok:
			return nil, &problem{code: codeUnknownWorkload}
		}
		if topic := s.topicFor(callOf(c).who.Owner, id, w.Name); !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	return topics, nil
}
