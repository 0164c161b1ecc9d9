package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// doctor sends probe streams through whatever stands between here and Tidings
// and says what that does to them. It decides by order: an event that comes when
// its successor has been sent already was held back, whatever the clocks say.
// What a slow machine could have done is asked for once more, four times slower.
type doctor struct {
	command doctorCommand
	client  *http.Client
	out     io.Writer

	base   string
	checks int
	failed int
}

const (
	doctorEvents = 6
	doctorPace   = 500 * time.Millisecond
	doctorSlow   = 4 * doctorPace // the second opinion; the most a probe takes
	quickEvents  = 2
	quickPace    = 50 * time.Millisecond
	// doctorCursor is no place of a probe: nothing would send it by chance.
	doctorCursor = "4711"
	// doctorToken is what is sent where no other is given. The probe asks for none.
	doctorToken = "tidings-doctor"
	// browserEncodings is what browsers accept.
	browserEncodings = "gzip, deflate, br"
)

func newDoctor(c doctorCommand, out io.Writer) *doctor {
	transport := &http.Transport{
		Proxy:              http.ProxyFromEnvironment,
		DialContext:        (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ForceAttemptHTTP2:  true, // an own DialContext would switch it off
		DisableCompression: true, // else it would ask for gzip, and undo it in silence
	}
	return &doctor{command: c, out: out, client: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// stay shows a redirect instead of following it.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// run makes all checks and returns the exit code: 1 if one has failed or there
// is no probe.
func (d *doctor) run(ctx context.Context) int {
	defer d.client.CloseIdleConnections()
	u, err := url.Parse(d.command.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return d.none(&noProbe{fmt.Sprintf("%q is no address with http:// or https://", clean(d.command.URL)), wantURL})
	}
	u.RawQuery, u.Fragment = "", ""
	d.base = strings.TrimSuffix(u.String(), "/")
	if err := d.examine(ctx); err != nil {
		return d.none(err)
	}
	if d.failed > 0 {
		fmt.Fprintf(d.out, "%d of %d checks FAILED\n", d.failed, d.checks)
		return exitFailed
	}
	fmt.Fprintln(d.out, "all OK")
	return 0
}

func (d *doctor) none(err error) int {
	var n *noProbe
	if !errors.As(err, &n) {
		return watchInterrupted
	}
	d.line("FAILED", "probe", n.why)
	d.advise(n.do)
	return exitFailed
}

func (d *doctor) examine(ctx context.Context) error {
	plain := errand{events: doctorEvents, pace: doctorPace}
	// The token goes along on every trip only where one is given: a gate in
	// front of Tidings may want it.
	plain.token = d.command.Token
	t, err := d.travel(ctx, plain)
	if err != nil {
		return err
	}
	if t.buffered() {
		plain.pace = doctorSlow
		if t, err = d.travel(ctx, plain); err != nil {
			return err
		}
	}
	d.way(t)
	d.headers(t)
	d.whole(t)
	d.buffering(t)

	quick := errand{events: quickEvents, pace: quickPace, token: d.command.Token}
	resumed := quick
	resumed.cursor = doctorCursor
	if resumed.token == "" {
		resumed.token = doctorToken
	}
	r, err := d.travel(ctx, resumed)
	if err != nil {
		return err
	}
	d.query(r)
	d.cursor(r)
	d.authorization(r)

	squeezed := quick
	squeezed.acceptEncoding = browserEncodings
	if r, err = d.travel(ctx, squeezed); err != nil {
		return err
	}
	d.compression(r)

	switch {
	case d.command.Idle == 0:
		d.line("NOTE", "idle", "not looked at: --idle 70s shows whether silent streams are cut")
		return nil
	case t.buffered():
		d.line("NOTE", "idle", "not looked at, as long as streams are held back")
		return nil
	}
	quick.quiet = d.command.Idle
	if r, err = d.travel(ctx, quick); err != nil {
		return err
	}
	d.idle(r)
	return nil
}

// way says what stands in between, as far as that can be seen.
func (d *doctor) way(t *trip) {
	in := t.first().Received
	what := fmt.Sprintf("%s from here, %s at Tidings, %d hops named", t.protocol, clean(in.Protocol), in.Hops)
	if in.Scheme != "" {
		what += ", " + clean(in.Scheme)
	}
	d.line("OK", "way", what+fmt.Sprintf("; the first event came after %d ms", t.first().at.Milliseconds()))
	switch {
	case t.protocol == "HTTP/1.0":
		d.note("version", "HTTP/1.0 from here: the end of a stream cannot be told from a cut",
			"Let the proxy answer with HTTP/1.1, better HTTP/2")
	case strings.HasPrefix(t.protocol, "HTTP/1."):
		d.note("version", t.protocol+" from here: a browser opens six streams to a host at most, and the seventh waits",
			"Serve browsers HTTP/2, which takes TLS. nginx: listen 443 ssl http2")
	default:
		d.passed("version", t.protocol)
	}
	if in.Protocol == "HTTP/1.0" {
		d.note("version", "HTTP/1.0 at Tidings: each stream and request opens a connection of its own",
			`nginx: proxy_http_version 1.1; proxy_set_header Connection "";`)
	}
}

// query needs a trip that asks for something else than what there is by itself.
func (d *doctor) query(t *trip) {
	if t.first().PaceMS == t.pace.Milliseconds() {
		d.passed("query", "arrives")
	} else {
		d.fail("query", "what stands behind the ? in an address does not arrive: languages and cursors get lost",
			"Pass the query on. nginx: a proxy_pass with variables needs $is_args$args")
	}
}

// headers compares what came with what was sent. Some are the hops' own:
// X-Accel-Buffering is meant for a proxy, which takes it away.
func (d *doctor) headers(t *trip) {
	needed := []string{"Content-Type", "Cache-Control"}
	var lost, other []string
	for name, sent := range t.first().Headers {
		if strings.HasPrefix(name, "X-Accel-") || name == "Vary" || name == "Connection" || name == "Date" {
			continue
		}
		came := strings.Join(t.header.Values(name), ", ")
		if came == sent {
			continue
		}
		what := clean(fmt.Sprintf("%s (sent %q, came %q)", name, sent, came))
		if slices.Contains(needed, name) {
			lost = append(lost, what)
		} else {
			other = append(other, what)
		}
	}
	slices.Sort(lost)
	slices.Sort(other)
	switch {
	case len(lost) > 0:
		d.fail("headers", "lost or changed: "+strings.Join(append(lost, other...), ", "),
			"Browsers refuse a stream without its type, and caches keep one without its Cache-Control. Let the proxy pass both on as they are")
	case len(other) > 0:
		d.note("headers", "lost or changed: "+strings.Join(other, ", "), "No stream depends on these. Is it meant?")
	default:
		d.passed("headers", "came as they were sent")
	}
}

func (d *doctor) whole(t *trip) {
	if t.whole() {
		d.passed("events", fmt.Sprintf("all %d, each once and in order", len(t.events)))
		return
	}
	var ids []string
	for _, e := range t.events {
		ids = append(ids, clean(e.id))
	}
	do := "Something ends the stream or changes it. Look for a limit on the time of a whole answer, and for filters"
	if t.closed != "" {
		do = "Tidings closed it itself. Try again; if it stays so, see TIDINGS_STREAM_MAX_AGE"
	}
	d.fail("events", fmt.Sprintf("of %d came %s (%s)", t.first().Of, strings.Join(ids, " "), t.ending()), do)
}

func (d *doctor) buffering(t *trip) {
	if len(t.events) < 2 {
		return // too few to tell; whole has said it
	}
	gaps := len(t.events) - 1
	if !t.buffered() {
		d.passed("buffering", fmt.Sprintf("%d of %d events came before the next was sent", gaps-t.held(), gaps))
		return
	}
	what := fmt.Sprintf("%d of %d events came only when the next had been sent", t.held(), gaps)
	if last := t.events[gaps-1].sent(); t.first().lateness(t.events) >= last-t.first().sent() {
		what = "events are held back until the stream ends"
	}
	d.fail("buffering", what,
		"nginx: proxy_buffering off, or no proxy_ignore_headers X-Accel-Buffering",
		"Others: switch response buffering, caching and virus scans off for /api/")
}

func (d *doctor) cursor(t *trip) {
	if got := t.first().Received.LastEventID; got != doctorCursor {
		d.fail("cursor", fmt.Sprintf("Last-Event-ID was %s when it left and %q at Tidings: streams do not resume", doctorCursor, clean(got)),
			"Let the proxy pass the header on. A client may also send ?last_event_id=")
		return
	}
	d.passed("cursor", "Last-Event-ID arrives")
}

func (d *doctor) authorization(t *trip) {
	if !t.first().Received.Authorization {
		d.fail("token", "Authorization does not arrive: with TIDINGS_AUTH=jwt every request would be refused",
			`Let the proxy pass the header on. nginx: no proxy_set_header Authorization ""`)
		return
	}
	d.passed("token", "Authorization arrives")
}

func (d *doctor) compression(t *trip) {
	if how := t.compressed(); how != "" {
		d.fail("compression", "the stream is compressed as "+clean(how)+" for who accepts it: compressors hold events back",
			"nginx: no text/event-stream in gzip_types, and gzip off for /api/",
			"Others: no compression for text/event-stream, or heed Cache-Control: no-transform")
		return
	}
	d.passed("compression", "none, although it was offered")
}

// idle looks at a stream on which nothing but comments came for a while.
func (d *doctor) idle(t *trip) {
	first := t.first()
	every := time.Duration(first.HeartbeatMS) * time.Millisecond
	switch {
	case t.whole() && t.comments == 0 && 2*every < t.quiet:
		d.fail("idle", fmt.Sprintf("not one comment came in %s, and Tidings sends one every %s: clients take the stream for dead", t.quiet, every),
			"Something drops or holds back what is small. Switch response buffering and filters off for /api/")
	case t.whole():
		d.passed("idle", fmt.Sprintf("open through %s with nothing but comments, one every %s", t.quiet, every))
	case t.closed != "":
		d.note("idle", "Tidings closed the stream itself ("+t.closed+")", "Try again; if it stays so, see TIDINGS_STREAM_MAX_AGE")
	default:
		d.fail("idle", fmt.Sprintf("cut %s after the last byte, in the middle of %s of silence (%s); Tidings sends a comment every %s",
			(t.end-t.last).Round(100*time.Millisecond), t.quiet, t.ending(), every),
			fmt.Sprintf("Raise the limit on silence to four comments, %s. nginx: proxy_read_timeout; ALB: idle timeout. Or lower TIDINGS_HEARTBEAT", 4*every))
	}
}

func (d *doctor) passed(name, what string) {
	d.checks++
	d.line("OK", name, what)
}

func (d *doctor) fail(name, what string, do ...string) {
	d.checks++
	d.failed++
	d.line("FAILED", name, what)
	d.advise(do...)
}

// note is for what works, and could be better.
func (d *doctor) note(name, what string, do ...string) {
	d.line("NOTE", name, what)
	d.advise(do...)
}

func (d *doctor) line(verdict, name, what string) {
	fmt.Fprintf(d.out, "%-6s  %-11s  %s\n", verdict, name, what)
}

func (d *doctor) advise(do ...string) {
	for _, what := range do {
		fmt.Fprintf(d.out, "%-6s  %-11s  %s\n", "", "", what)
	}
}
