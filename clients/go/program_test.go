package tidings_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tidings "github.com/tidings/tidings/clients/go"
)

// These tests run against the real program, in dev mode: its model fails as a
// submission says.

// patience bounds everything that is waited for.
const patience = 60 * time.Second

// program starts `tidings dev` and returns its address. TIDINGS_PROGRAM is one
// that is built already.
func program(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("TIDINGS_PROGRAM")
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "tidings")
		if out, err := exec.Command("go", "build", "-C", "../..", "-o", binary, "./cmd/tidings").CombinedOutput(); err != nil {
			t.Fatalf("cannot build the program: %v\n%s", err, out)
		}
	}
	cmd := exec.Command(binary, "dev")
	cmd.Env = []string{
		"HOME=" + t.TempDir(), "TIDINGS_LISTEN=127.0.0.1:0", "TIDINGS_OPS_LISTEN=127.0.0.1:0", "TIDINGS_LOCAL_LATENCY=0s",
		"TIDINGS_CALL_FIRST_PAUSE=10ms", "TIDINGS_QUEUE_DELAYS=100ms", "TIDINGS_LOG_LEVEL=error",
	}
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		for _, word := range strings.Fields(lines.Text()) {
			if address, ok := strings.CutPrefix(word, "api="); ok {
				go func() { _, _ = io.Copy(io.Discard, stdout) }() // ends with the program
				return address
			}
		}
	}
	t.Fatalf("the program ended without saying where it listens: %v", lines.Err())
	return ""
}

// follower is a session and all that it told.
type follower struct {
	*tidings.Session
	t    *testing.T
	mu   sync.Mutex
	all  []tidings.Status
	news chan struct{}
}

// follow opens a session and waits until its stream is open.
func follow(t *testing.T, base, session string, options ...tidings.Option) *follower {
	t.Helper()
	f := &follower{t: t, news: make(chan struct{}, 1)}
	client, err := tidings.NewClient(base, append(options, tidings.WithTrace(func(s tidings.Status) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all = append(f.all, s)
		select {
		case f.news <- struct{}{}:
		default:
		}
	}))...)
	if err != nil {
		t.Fatal(err)
	}
	f.Session = client.Open(context.Background(), session)
	t.Cleanup(f.Close)
	f.until("an open stream", func(s tidings.Status) bool { return s.Connection == tidings.Open && s.Event.Name == "idle" })
	return f
}

func (f *follower) told() []tidings.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// until waits for a status; those that were told before count as well.
func (f *follower) until(what string, is func(tidings.Status) bool) tidings.Status {
	f.t.Helper()
	for deadline := time.After(patience); ; {
		for _, s := range f.told() {
			if is(s) {
				return s
			}
		}
		select {
		case <-f.news:
		case <-deadline:
			f.t.Fatalf("%s never came; this did: %v", what, f.events())
		}
	}
}

func (f *follower) untilEvent(name string) tidings.Status {
	f.t.Helper()
	return f.until(name, func(s tidings.Status) bool { return s.Event.Name == name })
}

// forget drops what was told before the session last started anew.
func (f *follower) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range slices.Backward(f.all) {
		if s.Event.Name == "" {
			f.all = f.all[i:]
			return
		}
	}
}

// events are the events told of a job, as "retrying queue".
func (f *follower) events() (names []string) {
	var last int64
	for _, s := range f.told() {
		if e := s.Event; e.Seq != 0 && e.Seq != last {
			last = e.Seq
			names = append(names, strings.TrimSpace(e.Name+" "+e.Layer))
		}
	}
	return names
}

func (f *follower) seqs() (all []int64) {
	for _, s := range f.told() {
		if e := s.Event; e.Seq != 0 && (len(all) == 0 || all[len(all)-1] != e.Seq) {
			all = append(all, e.Seq)
		}
	}
	return all
}

const shift = "The pump lost pressure in the night. The seal was worn and has been replaced. It has held since."

// submit is somebody else's: a session that submits itself starts over with the
// new job, and may join it when it is already under way.
func submit(t *testing.T, base, session string, simulate ...string) {
	t.Helper()
	client, err := tidings.NewClient(base)
	if err != nil {
		t.Fatal(err)
	}
	if job, err := client.Submit(context.Background(), session, tidings.Submission{Text: shift, Simulate: simulate}); err != nil || job.ID == "" {
		t.Fatalf("submit: %+v, %v", job, err)
	}
}

func TestProgram(t *testing.T) {
	base := program(t)

	t.Run("through both layers of retries to the document", func(t *testing.T) {
		t.Parallel()
		f := follow(t, base, "retries")
		submit(t, base, "retries", "503", "503", "503", "ok")
		end := f.untilEvent("completed")
		want := []string{"queued", "processing", "retrying call", "processing", "retrying call", "processing", "retrying queue", "processing", "completed"}
		if got := f.events(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		for _, s := range f.told() {
			if e := s.Event; e.Name == "retrying" && (e.Message == "" || e.Reason != "unavailable" || s.NextTry.IsZero() || s.Phase != tidings.Retrying) {
				t.Errorf("retrying: %+v", s)
			}
		}
		if end.Phase != tidings.Done || end.Outcome != tidings.ResultCompleted {
			t.Errorf("in the end: %+v", end.State)
		}
		d, err := f.Document(context.Background())
		if err != nil || d.Version != 1 || d.Version != end.Event.Version || !strings.Contains(string(d.Content), "pump") {
			t.Errorf("document %+v %s, %v", d, d.Content, err)
		}
		ledger, err := f.Attempts(context.Background())
		if err != nil || ledger.JobID != end.Event.JobID || len(ledger.Attempts) != 2 || len(ledger.Calls) != 4 ||
			ledger.Calls[0].ProviderStatus != 503 || ledger.Calls[3].Decision != "done" || ledger.Calls[3].OutputTokens == nil {
			t.Errorf("ledger %+v, %v", ledger, err)
		}

		// Whoever has seen the end is told that there is nothing to come.
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+"/api/v1/sessions/retries/summary/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Last-Event-ID", end.LastEventID)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusNoContent {
			t.Errorf("with the last position: %s", res.Status)
		}
	})

	t.Run("error, and a retry that helps", func(t *testing.T) {
		t.Parallel()
		f := follow(t, base, "error")
		if _, err := f.Submit(context.Background(), tidings.Submission{Text: shift, Simulate: []string{"invalid_output", "ok"}}); err != nil {
			t.Fatal(err)
		}
		f.forget() // it may have told of the error already, and starts anew all the same
		failed := f.untilEvent("error")
		if failed.Phase != tidings.Failed || !failed.CanRetry || failed.Event.Outcome != "failed" || failed.Event.Message == "" {
			t.Errorf("%+v", failed)
		}
		if err := f.Retry(context.Background()); err != nil {
			t.Fatal(err)
		}
		if end := f.untilEvent("completed"); end.Event.JobID == failed.Event.JobID {
			t.Error("the retry is the same job")
		}
	})

	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		f := follow(t, base, "cancel")
		submit(t, base, "cancel", "hang")
		f.untilEvent("processing")
		if err := f.Cancel(context.Background()); err != nil {
			t.Fatal(err)
		}
		if end := f.untilEvent("error"); end.Event.Reason != "cancelled" {
			t.Errorf("%+v", end.Event)
		}
		var refused *tidings.HTTPError
		if _, err := f.Document(context.Background()); !errors.As(err, &refused) || refused.Code != "no_document" {
			t.Errorf("its document: %v", err)
		}
	})

	t.Run("a killed connection resumes without gap or repeat", func(t *testing.T) {
		t.Parallel()
		way := newWay(t, base)
		direct := follow(t, base, "resume")
		f := follow(t, way.address, "resume")
		submit(t, base, "resume", "503", "503", "503", "ok")
		f.untilEvent("processing")
		way.kill()
		f.until("a lost connection", func(s tidings.Status) bool { return s.Connection == tidings.Reconnecting && s.Event.Name != "" })
		direct.untilEvent("completed")
		f.untilEvent("completed")
		if got, want := f.seqs(), direct.seqs(); !slices.Equal(got, want) {
			t.Errorf("over two connections %v, over one %v", got, want)
		}
		if n := way.taken(); n < 2 {
			t.Errorf("%d connections", n)
		}
	})

	t.Run("texts in every language, by their ETag", func(t *testing.T) {
		t.Parallel()
		var answers []int
		h := &http.Client{Transport: noting(func(status int) { answers = append(answers, status) })}
		for _, tag := range []string{"ar", "da", "de", "en", "es", "fi", "fr", "it", "ja", "ko", "nb", "nl", "pl", "pt", "sv", "zh"} {
			client, err := tidings.NewClient(base, tidings.WithHTTPClient(h), tidings.WithLanguage(tag))
			if err != nil {
				t.Fatal(err)
			}
			texts, builtIn := client.Texts(), client.Texts()
			for range 2 {
				if err := texts.Load(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			if texts.Language() != tag {
				t.Errorf("%s: the server chose %s", tag, texts.Language())
			}
			for _, key := range []string{tidings.KeyRetryButton, tidings.KeySeeLater, tidings.ErrorKey("guidance")} {
				if got, want := texts.Get(key), builtIn.Get(key); got != want || got == key {
					t.Errorf("%s: %s is %q at the server and %q here", tag, key, got, want)
				}
			}
		}
		if want := slices.Repeat([]int{200, 304}, 16); !slices.Equal(answers, want) {
			t.Errorf("answered with %v", answers)
		}
	})

	t.Run("each reader in a language of their own", func(t *testing.T) {
		t.Parallel()
		english, norwegian := follow(t, base, "languages"), follow(t, base, "languages", tidings.WithLanguage("nn-NO"))
		submit(t, base, "languages", "503", "ok")
		for f, words := range map[*follower]string{english: "Retrying", norwegian: "Prøver"} {
			if s := f.untilEvent("retrying"); !strings.HasPrefix(s.Event.Message, words) {
				t.Errorf("%q, want %q…", s.Event.Message, words)
			}
		}
	})
}

// noting tells of the status of each answer.
type noting func(status int)

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		n(res.StatusCode)
	}
	return res, err
}

// way passes connections on until they are killed.
type way struct {
	address string
	mu      sync.Mutex
	open    []net.Conn
	count   int
}

func newWay(t *testing.T, base string) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{address: "http://" + l.Addr().String()}
	var passing sync.WaitGroup
	pass := func(f func()) {
		passing.Add(1)
		go func() { defer passing.Done(); f() }()
	}
	pass(func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				_ = here.Close()
				continue
			}
			w.mu.Lock()
			w.open, w.count = append(w.open, here, there), w.count+1
			w.mu.Unlock()
			pass(func() { _, _ = io.Copy(there, here); _ = there.Close() })
			pass(func() { _, _ = io.Copy(here, there); _ = here.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); w.kill(); passing.Wait() })
	return w
}

// kill ends all connections with a reset, as a lost network does at last.
func (w *way) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	w.open = nil
}

func (w *way) taken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
