package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"github.com/tidings/tidings/events"
)

// A probe is a stream about the way it takes: paced events, each with the time
// it was sent, and in the first one what arrived of the request and what was
// sent of the answer. Whoever reads it can tell what stands in between changes
// or holds back (tidings doctor does). It goes through the emitter, as every
// status stream: what happens to one happens to the other.
//
// It needs no token, because it has to work before anything else does. So it
// touches no storage, says nothing that the caller has not sent, and is bounded
// in number, frequency and time.
const (
	maxProbes     = 8           // open in this process; also under StreamLimit, as all streams
	probeEvery    = time.Second // one more may begin
	probeBurst    = 30          // that may begin at once
	maxEchoed     = 200         // bytes of any one header
	probeEvents   = 6
	maxEvents     = 20
	probePace     = 500 * time.Millisecond
	minPace       = 50 * time.Millisecond
	maxPace       = 2 * time.Second
	maxProbeQuiet = 5 * time.Minute
)

// probes bounds how many are open and how often one begins.
type probes struct {
	open  chan struct{} // one element each
	begin *rate.Limiter
}

func newProbes() *probes {
	return &probes{open: make(chan struct{}, maxProbes), begin: rate.NewLimiter(rate.Every(probeEvery), probeBurst)}
}

// admit takes a place, which the caller gives back.
func (p *probes) admit() (release func(), err error) {
	select {
	case p.open <- struct{}{}:
	default:
		return nil, &problem{code: codeTooManyStreams}
	}
	release = func() { <-p.open }
	if !p.begin.Allow() {
		release()
		return nil, &problem{code: codeTooManyStreams, wait: probeEvery}
	}
	return release, nil
}

// probe is the source of one probe stream.
type probe struct {
	events    int           // paced ones
	pace      time.Duration // between two of them
	quiet     time.Duration // before one more event; 0: there is none
	heartbeat time.Duration
	received  received
	headers   map[string]string

	started time.Time
	due     time.Time   // of the next event
	timer   *time.Timer // wakes the line then
	n       int         // of the last event, from 1
	release func()      // gives the place back; once
}

// received is what arrived of the request. Of a token it says that there was
// one, and of proxies how many named themselves.
type received struct {
	Protocol       string `json:"protocol"`
	LastEventID    string `json:"last_event_id"`
	AcceptEncoding string `json:"accept_encoding"`
	Authorization  bool   `json:"authorization"`
	Hops           int    `json:"hops"`   // entries of X-Forwarded-For
	Scheme         string `json:"scheme"` // X-Forwarded-Proto
}

// probeJSON is an event's data; docs/schemas/probe.json has the same.
type probeJSON struct {
	N          int   `json:"n"`
	Of         int   `json:"of"`
	SentMS     int64 `json:"sent_ms"` // since the stream began
	ServerTime stamp `json:"server_time"`
	*probeStart
}

// probeStart is what the first event has besides.
type probeStart struct {
	PaceMS      int64             `json:"pace_ms"`
	QuietMS     int64             `json:"quiet_ms"`
	HeartbeatMS int64             `json:"heartbeat_ms"`
	Received    received          `json:"received"`
	Headers     map[string]string `json:"headers"` // of this answer, as they were sent
}

// probeStream answers with a probe.
func (s *Server) probeStream(c *gin.Context) {
	p, err := s.newProbe(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	if c.Request.Method == http.MethodHead {
		streamHeaders(c.Writer.Header())
		c.Status(http.StatusOK)
		return
	}
	release, err := s.probes.admit()
	if err != nil {
		s.fail(c, err)
		return
	}
	s.openStream(c, func(l line) (source, error) {
		p.started = time.Now()
		p.due = p.started
		p.timer = time.AfterFunc(maxProbeQuiet, l.Wake)
		p.release = release
		return p, nil
	})
	if p.timer == nil { // it was refused
		release()
	}
}

// newProbe reads what is asked for and what has arrived.
func (s *Server) newProbe(c *gin.Context) (*probe, error) {
	p := &probe{heartbeat: s.o.Heartbeat}
	var err error
	if p.events, err = within(c, "events", probeEvents, 2, maxEvents); err != nil {
		return nil, err
	}
	pace, err := within(c, "pace_ms", int(probePace.Milliseconds()), int(minPace.Milliseconds()), int(maxPace.Milliseconds()))
	if err != nil {
		return nil, err
	}
	quiet, err := within(c, "quiet_s", 0, 0, int(maxProbeQuiet.Seconds()))
	if err != nil {
		return nil, err
	}
	p.pace, p.quiet = time.Duration(pace)*time.Millisecond, time.Duration(quiet)*time.Second
	in := c.Request.Header
	p.received = received{
		Protocol: c.Request.Proto, LastEventID: echo(in, "Last-Event-ID"), AcceptEncoding: echo(in, "Accept-Encoding"),
		Authorization: in.Get("Authorization") != "", Scheme: echo(in, "X-Forwarded-Proto"),
	}
	if hops := strings.Join(in.Values("X-Forwarded-For"), ","); hops != "" {
		p.received.Hops = strings.Count(hops, ",") + 1
	}
	out := c.Writer.Header().Clone()
	streamHeaders(out)
	p.headers = make(map[string]string, len(out))
	for name, values := range out {
		p.headers[name] = strings.Join(values, ", ")
	}
	return p, nil
}

// within reads a whole number of the query, def if there is none.
func within(c *gin.Context, name string, def, from, to int) (int, error) {
	text := c.Query(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < from || n > to {
		return 0, &problem{code: codeInvalidQuery, field: name, hint: fmt.Sprintf("a whole number from %d to %d", from, to)}
	}
	return n, nil
}

func echo(h http.Header, name string) string {
	v := strings.Join(h.Values(name), ", ")
	return strings.ToValidUTF8(v[:min(len(v), maxEchoed)], "")
}

func (p *probe) of() int {
	if p.quiet > 0 {
		return p.events + 1
	}
	return p.events
}

// next implements source: an event, if one is due.
func (p *probe) next() (frame, bool, error) {
	now := time.Now()
	if wait := p.due.Sub(now); wait > 0 {
		p.timer.Reset(wait)
		return frame{}, false, nil
	}
	p.n++
	data := probeJSON{N: p.n, Of: p.of(), SentMS: now.Sub(p.started).Milliseconds(), ServerTime: stamp{now}}
	if p.n == 1 {
		data.probeStart = &probeStart{PaceMS: p.pace.Milliseconds(), QuietMS: p.quiet.Milliseconds(),
			HeartbeatMS: p.heartbeat.Milliseconds(), Received: p.received, Headers: p.headers}
	}
	p.due = now.Add(p.pace) // from when this one went, so that none follows on the heels of a late one
	if p.n == p.events {
		p.due = now.Add(p.quiet)
	}
	b, err := json.Marshal(data)
	return frame{id: strconv.Itoa(p.n), event: "probe", data: b, last: p.n == p.of()}, err == nil, err
}

// took implements source. Probes are no events of a job and not counted as such.
func (p *probe) took(frame) {}

// follows implements source.
func (p *probe) follows(events.Topic) bool { return false }

// close implements source.
func (p *probe) close() {
	p.timer.Stop()
	p.release()
}
