package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// probeEvent is one event of a probe (docs/schemas/probe.json).
type probeEvent struct {
	N      int   `json:"n"`
	Of     int   `json:"of"`
	SentMS int64 `json:"sent_ms"`

	// In the first event alone.
	PaceMS      int64 `json:"pace_ms"`
	QuietMS     int64 `json:"quiet_ms"`
	HeartbeatMS int64 `json:"heartbeat_ms"`
	Received    struct {
		Protocol       string `json:"protocol"`
		LastEventID    string `json:"last_event_id"`
		AcceptEncoding string `json:"accept_encoding"`
		Authorization  bool   `json:"authorization"`
		Hops           int    `json:"hops"`
		Scheme         string `json:"scheme"`
	} `json:"received"`
	Headers map[string]string `json:"headers"`
}

// arrival is an event, and when it came, since the request went.
type arrival struct {
	probeEvent
	id string
	at time.Duration
}

// lateness is by how much more than the fastest event of the trip this one was
// on its way. No clocks are compared, only spans: each side's own.
func (a arrival) lateness(all []arrival) time.Duration {
	fastest := a.onTheWay()
	for _, other := range all {
		fastest = min(fastest, other.onTheWay())
	}
	return a.onTheWay() - fastest
}

func (a arrival) onTheWay() time.Duration { return a.at - a.sent() }

func (a arrival) sent() time.Duration { return time.Duration(a.SentMS) * time.Millisecond }

// errand is what a trip asks for.
type errand struct {
	events         int
	pace, quiet    time.Duration
	cursor         string
	token          string
	acceptEncoding string
}

// trip is one probe stream as it came.
type trip struct {
	errand
	protocol string
	header   http.Header
	events   []arrival
	comments int           // heartbeats
	closed   string        // why the server says it closes the stream, "" if it does not
	last     time.Duration // when the last byte came
	end      time.Duration // when the stream ended
	err      error         // of the end; nil for a clean one
}

// whole tells whether everything came, in order and once.
func (t *trip) whole() bool {
	for i, e := range t.events {
		if e.N != i+1 || e.id != strconv.Itoa(e.N) {
			return false
		}
	}
	return len(t.events) == t.first().Of
}

func (t *trip) first() arrival { return t.events[0] }

// held counts the events that came when the next one had already been sent.
func (t *trip) held() (n int) {
	for i, e := range t.events[:len(t.events)-1] {
		if e.lateness(t.events) >= t.events[i+1].sent()-e.sent() {
			n++
		}
	}
	return n
}

// buffered tells whether more than half were held: a busy machine holds one or
// two, a buffer holds all but the last.
func (t *trip) buffered() bool { return len(t.events) > 1 && 2*t.held() > len(t.events)-1 }

const (
	// tripPatience is how much longer than announced a trip may take.
	tripPatience = 30 * time.Second
	// tripMaxLine is far above any line of a probe.
	tripMaxLine = 64 << 10
	// tripMaxLines is far above the lines of the longest probe.
	tripMaxLines = 100_000
)

// noProbe says why there is no probe at the address, and what to do.
type noProbe struct{ why, do string }

func (n *noProbe) Error() string { return n.why }

// travel opens a probe and reads it to its end, however that comes. An error
// means that there is no probe; it is a *noProbe unless ctx has ended.
func (d *doctor) travel(ctx context.Context, a errand) (*trip, error) {
	whole := time.Duration(a.events)*a.pace + a.quiet
	limited, cancel := context.WithTimeout(ctx, whole+tripPatience)
	defer cancel()
	r, err := a.request(limited, d.base)
	if err != nil {
		return nil, &noProbe{err.Error(), wantURL}
	}
	start := time.Now()
	res, err := d.client.Do(r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, unreached(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refusedProbe(res)
	}
	t := &trip{errand: a, protocol: res.Proto, header: res.Header}
	body, err := decoded(res)
	if err == nil {
		err = t.read(bufio.NewReaderSize(body, tripMaxLine), start)
	}
	t.end, t.err = time.Since(start), err
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(t.events) == 0 && t.compressed() != "" && a.acceptEncoding != "": // that it is, is the finding
		return t, nil
	case len(t.events) == 0:
		return nil, &noProbe{fmt.Sprintf("the answer is no probe: %s, and not one event (%s)", kind(res.Header), t.ending()),
			"Is this the API's address? Asked was " + r.URL.Redacted()}
	}
	return t, nil
}

// ending says how the stream ended.
func (t *trip) ending() string {
	switch {
	case t.closed != "":
		return "the server closed it: " + t.closed
	case t.err == nil:
		return "closed as if it were complete"
	case errors.Is(t.err, context.DeadlineExceeded):
		return "nothing more came, and no end"
	}
	return clean(t.err.Error())
}

func (a errand) request(ctx context.Context, base string) (*http.Request, error) {
	q := url.Values{"events": {strconv.Itoa(a.events)}, "pace_ms": {strconv.FormatInt(a.pace.Milliseconds(), 10)}}
	if a.quiet > 0 {
		q.Set("quiet_s", strconv.Itoa(int(a.quiet.Seconds())))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/api/v1/probe?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Accept": "text/event-stream", "Cache-Control": "no-cache", "Last-Event-ID": a.cursor, "Accept-Encoding": a.acceptEncoding,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	return r, nil
}

// decoded undoes what was done to the body, as far as that can be done here.
func decoded(res *http.Response) (io.Reader, error) {
	switch encoding := res.Header.Get("Content-Encoding"); strings.ToLower(encoding) {
	case "", "identity":
		return res.Body, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(res.Body)
	default:
		return nil, errors.New("compressed as " + encoding)
	}
}

func (t *trip) compressed() string {
	if e := t.header.Get("Content-Encoding"); !strings.EqualFold(e, "identity") {
		return e
	}
	return ""
}

// read takes what comes until the end. The r3labs client would not do: it
// tells neither comments nor how a stream ended.
func (t *trip) read(body *bufio.Reader, start time.Time) error {
	var id, data string
	for range tripMaxLines {
		b, err := body.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(b) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		t.last = time.Since(start)
		line := strings.TrimRight(string(b), "\r\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != "":
			e := arrival{id: id, at: t.last}
			if json.Unmarshal([]byte(data), &e.probeEvent) != nil || e.N == 0 {
				return errors.New("an event that is no probe's")
			}
			t.events = append(t.events, e)
			data = ""
		case name == "":
			switch value = strings.TrimSpace(value); value {
			case "":
			case "alive":
				t.comments++
			default:
				t.closed = clean(value)
			}
		case name == "id":
			id = value
		case name == "data":
			data = value
		}
	}
	return errors.New("a stream without end")
}

const wantURL = "Give the address that clients use, such as https://tidings.example.com"

// unreached says why nothing answered.
func unreached(err error) *noProbe {
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	n := &noProbe{why: "no answer: " + clean(err.Error()), do: "Is something listening there? " + wantURL}
	var dns *net.DNSError
	text := err.Error()
	switch {
	case errors.As(err, &dns):
		n.do = "There is no such name. " + wantURL
	case errors.Is(err, syscall.ECONNREFUSED):
		n.do = "Nothing listens there: is Tidings or the proxy running, and is the port right?"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		n.do = "That port speaks plain HTTP: give http://, or the port that has TLS"
	case strings.Contains(text, "certificate") || strings.Contains(text, "x509:"):
		n.do = "Clients refuse this certificate too. It must be valid for this name and signed by somebody whom this machine trusts"
	case strings.Contains(text, "tls:"):
		n.do = "TLS was not agreed upon: is it a port with TLS?"
	case errors.Is(err, context.DeadlineExceeded):
		n.do = "Not even headers came: something holds the whole answer back, or drops the packets (a firewall)"
	}
	return n
}

// refusedProbe says what an answer means that is no stream.
func refusedProbe(res *http.Response) *noProbe {
	var p struct{ Title, Code string }
	body, _ := io.ReadAll(io.LimitReader(res.Body, tripMaxLine)) // without one the status has to do
	_ = json.Unmarshal(body, &p)
	ours := p.Code != "" && strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json")
	n := &noProbe{why: "the answer is " + clean(strings.TrimSpace(res.Status+" "+p.Title))}
	switch code := res.StatusCode; {
	case code >= 300 && code < 400:
		n.why += ", to " + clean(res.Header.Get("Location"))
		n.do = "Give the address it leads to: a client that follows loses time with each connection, and perhaps its headers"
	case code == http.StatusTooManyRequests && ours:
		n.do = "There are too many probes right now. Again in " + clean(res.Header.Get("Retry-After")) + " s"
	case ours && code == http.StatusServiceUnavailable:
		n.do = "Tidings is shutting down or has lost its Redis: see its log"
	case ours && code == http.StatusNotFound:
		n.do = "This is Tidings, but its version knows no probes, or the address has an extra path"
	case ours:
		n.do = "Tidings has refused it: see its log"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		n.do = "The probe needs no token, so something in front of Tidings refuses it. Put the token it wants into TIDINGS_TOKEN"
	case code == http.StatusBadRequest && strings.Contains(string(body), "HTTPS"):
		n.do = "That port speaks TLS: give https://"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		n.do = "No probe there: not a Tidings, or a path that the proxy does not pass on, or an old version. Is it the API's port, and not that of the operators?"
	case code >= 500:
		n.do = "The proxy answers in Tidings' place: does it reach it? Its error log says more"
	default:
		n.do = "Not what Tidings would answer: something in front of it does. " + wantURL
	}
	return n
}

func kind(h http.Header) string {
	if t := h.Get("Content-Type"); t != "" {
		return clean(t)
	}
	return "without a type"
}
