package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/r3labs/sse/v2"
)

// The exit codes of watch.
const (
	watchedCompleted = 0
	watchedError     = 1
	watchFailed      = 2   // the stream cannot be had
	watchInterrupted = 130 // what a shell expects of a program that Ctrl-C ended
)

const (
	// watchSilence is how long nothing at all may arrive: three comments of a
	// server with the default heartbeat.
	watchSilence = 45 * time.Second
	// watchMaxFrame is far above any frame of ours. The r3labs client reconnects
	// for ever, without a word, over a frame that is larger than its buffer.
	watchMaxFrame = 1 << 20
	// watchMaxWait bounds the pause between two connections.
	watchMaxWait = 30 * time.Second
)

// news is what an event says, as far as watch shows it.
type news struct {
	name string // the event's: queued, processing, …
	id   string

	At          time.Time `json:"at"`
	Attempt     int       `json:"attempt"`
	MaxAttempts int       `json:"max_attempts"`
	Call        int       `json:"call"`
	MaxCalls    int       `json:"max_calls"`
	Reason      string    `json:"reason"`
	Message     string    `json:"message"`
	RetryInMS   int64     `json:"retry_in_ms"`
	CanRetry    bool      `json:"can_retry"`
	DocumentURL string    `json:"document_url"`
	Reset       bool      `json:"reset"`
}

// watcher shows one stream. It reconnects on its own: the r3labs client does
// not after a clean end, ignores what the server says about waiting, and goes
// on after its context has ended, so its own strategy is to stop at once.
type watcher struct {
	command watchCommand
	client  *http.Client
	out     io.Writer
	// live tells that out is a terminal, where a line can be written over.
	live bool

	lastID string        // of the last event that arrived whole
	pause  time.Duration // what the server asks for between two connections
	failed int           // connections in a row that brought nothing
}

// refused is an answer that repeating will not change.
type refused struct{ why string }

func (r *refused) Error() string { return r.why }

// stopAtOnce is the r3labs client's strategy: no second try.
type stopAtOnce struct{}

func (stopAtOnce) NextBackOff() time.Duration { return -1 }
func (stopAtOnce) Reset()                     {}

func newWatcher(c watchCommand, out io.Writer, live bool) *watcher {
	dial := (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		ResponseHeaderTimeout: watchSilence,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return impatient{conn}, err
		},
	}
	return &watcher{command: c, client: &http.Client{Transport: transport}, out: out, live: live, pause: 2 * time.Second}
}

// impatient gives up on a peer from which nothing arrives any more.
type impatient struct{ net.Conn }

func (c impatient) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(watchSilence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// run watches until the job has ended and returns the exit code.
func (w *watcher) run(ctx context.Context) int {
	defer w.client.CloseIdleConnections()
	for {
		end, err := w.connection(ctx)
		var final *refused
		switch {
		case ctx.Err() != nil:
			w.line("")
			return watchInterrupted
		case errors.As(err, &final):
			w.line("%s", final.why)
			return watchFailed
		case end == "completed":
			return watchedCompleted
		case end == "error":
			return watchedError
		}
		wait := w.nextPause()
		if err != nil {
			w.line("no connection (%v), again in %s", clean(err.Error()), wait.Round(100*time.Millisecond))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// nextPause is what the server asked for, doubled with every connection in a
// row that brought nothing, and spread so that not everybody comes at once.
func (w *watcher) nextPause() time.Duration {
	wait := min(w.pause<<min(w.failed, 10), watchMaxWait)
	w.failed++
	return wait/2 + rand.N(wait/2+1)
}

// connection shows one connection's events. end is the event that ended the
// job, if one did.
func (w *watcher) connection(ctx context.Context) (end string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrived := make(chan news)
	done := make(chan error, 1)
	go func() { done <- w.subscribe(ctx, arrived) }() // ends with ctx

	var shown news
	var until time.Time
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case n := <-arrived:
			w.failed = 0
			shown, until = n, time.Now().Add(time.Duration(n.RetryInMS)*time.Millisecond)
			w.show(n)
			if n.id != "" {
				w.lastID = n.id
			}
			if n.name == "completed" || n.name == "error" {
				return n.name, nil
			}
		case <-tick.C:
			if w.live && shown.name == "retrying" && shown.RetryInMS > 0 {
				w.over("          next try in %d s", max(0, int(time.Until(until).Round(time.Second).Seconds())))
			}
		case err := <-done:
			return "", err
		}
	}
}

// subscribe hands over what arrives on one connection, until it ends.
func (w *watcher) subscribe(ctx context.Context, arrived chan<- news) error {
	c := sse.NewClient(w.address(), sse.ClientMaxBufferSize(watchMaxFrame))
	c.Connection = w.client
	c.ReconnectStrategy = stopAtOnce{}
	c.ResponseValidator = checkAnswer
	if w.lastID != "" {
		c.LastEventID.Store([]byte(w.lastID))
	}
	return c.SubscribeRawWithContext(ctx, func(m *sse.Event) {
		if ms, err := strconv.Atoi(string(m.Retry)); err == nil && ms > 0 {
			w.pause = time.Duration(ms) * time.Millisecond
		}
		n := news{name: string(m.Event), id: string(m.ID)}
		// The client also delivers what was cut off in the middle. Its id must
		// not count as seen.
		if json.Unmarshal(m.Data, &n) != nil {
			return
		}
		select {
		case arrived <- n:
		case <-ctx.Done():
		}
	})
}

func (w *watcher) address() string {
	u := strings.TrimSuffix(w.command.URL, "/") + "/api/v1/sessions/" + url.PathEscape(w.command.Session) + "/" +
		url.PathEscape(w.command.Workload) + "/status"
	if w.command.Lang != "" {
		u += "?lang=" + url.QueryEscape(w.command.Lang)
	}
	return u
}

// checkAnswer tells an answer that may change from one that will not.
func checkAnswer(_ *sse.Client, r *http.Response) error {
	if r.StatusCode == http.StatusOK && strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	defer r.Body.Close()
	var problem struct{ Title, Detail string }
	_ = json.NewDecoder(io.LimitReader(r.Body, watchMaxFrame)).Decode(&problem) // without one the status has to do
	why := strings.TrimSpace(r.Status + " " + strings.TrimSpace(problem.Title+" "+problem.Detail))
	if r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests {
		return errors.New(why)
	}
	if r.StatusCode == http.StatusOK {
		why = "the answer is no event stream: is this the API's address?"
	}
	return &refused{clean(why)}
}

func (w *watcher) show(n news) {
	if n.Reset {
		w.line("the server does not know how far we had come; this is how it stands:")
	}
	w.line("%s", describeNews(n))
	switch {
	case n.name == "completed" && n.DocumentURL != "":
		w.line("document: %s", clean(n.DocumentURL))
	case n.name == "error" && n.CanRetry:
		w.line("try again: curl -X POST %s", strings.Replace(strings.Split(w.address(), "?")[0], "/status", "/retry", 1))
	}
}

// describeNews writes an event as one line. What people are told is the
// server's, in the language asked for; the rest are the words of the protocol.
func describeNews(n news) string {
	at := n.At
	if at.IsZero() { // idle has no time of its own
		at = time.Now()
	}
	parts := []string{at.Local().Format("15:04:05"), fmt.Sprintf("%-10s", n.name)}
	if n.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d/%d", n.Attempt, n.MaxAttempts))
	}
	if n.name == "processing" && n.Call > 0 {
		parts = append(parts, fmt.Sprintf("call %d/%d", n.Call, n.MaxCalls))
	}
	if n.Reason != "" {
		parts = append(parts, "("+n.Reason+")")
	}
	if n.Message != "" {
		parts = append(parts, n.Message)
	}
	return clean(strings.Join(parts, "  "))
}

// line writes a line of its own, over a countdown if there is one.
func (w *watcher) line(format string, args ...any) {
	if w.live {
		format = "\r\x1b[K" + format
	}
	fmt.Fprintf(w.out, format+"\n", args...)
}

// over writes the current line anew.
func (w *watcher) over(format string, args ...any) {
	fmt.Fprintf(w.out, "\r\x1b[K"+format, args...)
}

// clean keeps a server from steering the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
