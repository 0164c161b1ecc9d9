// Package readers runs readers of event streams that others wrote against the real
// program. There is no code here but their recipes and this test.
package readers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Bounds of the waits for a package registry and for a reader.
const (
	patience = 5 * time.Minute
	jobLimit = time.Minute
)

// TestReaders follows a job with each reader while the server sends heartbeats
// all the time and closes the stream every second, as it does after TIDINGS_STREAM_MAX_AGE.
func TestReaders(t *testing.T) {
	api := program(t)
	python := filepath.Join(t.TempDir(), "venv")
	classes := filepath.Join(t.TempDir(), "classpath")
	run(t, "npm", "npm", "ci", "--no-audit", "--no-fund")
	run(t, ".", "python3", "-m", "venv", python)
	run(t, "python", filepath.Join(python, "bin", "pip"), "install", "-q", "-r", "requirements.txt")
	run(t, "maven", "mvn", "-B", "-ntp", "-q", "dependency:build-classpath", "-Dmdep.outputFile="+classes)
	jars, err := os.ReadFile(classes)
	if err != nil {
		t.Fatal(err)
	}

	for name, command := range map[string][]string{
		"fetch-event-source": {"node", "npm/fetch-event-source.js"},
		"eventsource":        {"node", "npm/eventsource.js"},
		"react-native-sse":   {"node", "npm/react-native-sse.js"},
		"httpx-sse":          {filepath.Join(python, "bin", "python"), "python/read_httpx_sse.py"},
		"sseclient":          {filepath.Join(python, "bin", "python"), "python/read_sseclient.py"},
		"okhttp-sse":         {"java", "-cp", string(jars), "maven/OkHttpSse.java"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			follow(t, api, name, command)
		})
	}
}

type message struct{ ID, Event, Data string }

// follow lets a reader follow a job of its own to its end, and compares what it has
// made of the stream with the server's log.
func follow(t *testing.T, api, session string, command []string) {
	way, requests := countingProxy(t, api)
	submit(t, api, session)
	ctx, cancel := context.WithTimeout(context.Background(), jobLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], way+status(session))...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("the reader does not stop at the end: %v\n%s\n%s", err, stdout, stderr.Bytes())
	}

	var got []message
	var empty int64
	for line := range bytes.Lines(stdout) {
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if m.Data == "" || m.ID == "" {
			empty++
			continue
		}
		got = append(got, m)
	}
	if len(got) == 0 {
		t.Fatalf("no messages\n%s", stderr.Bytes())
	}
	want := replay(t, api, session, got[0].ID)
	if want[len(want)-1].Event != "completed" {
		t.Fatalf("the job ended with %s", want[len(want)-1].Event)
	}
	for i := range max(len(got)-1, len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("one too many: %+v", got[i+1])
		case i+1 >= len(got):
			t.Errorf("missing: %s %s", want[i].ID, want[i].Event)
		case got[i+1].ID != want[i].ID || got[i+1].Event != want[i].Event:
			t.Errorf("message %d is %s %s, want %s %s", i+2, got[i+1].ID, got[i+1].Event, want[i].ID, want[i].Event)
		}
	}
	allowed := int64(0)
	if session == "sseclient" { // the end of the chunks of each stream, see its recipe
		allowed = requests()
	}
	if empty > allowed {
		t.Errorf("%d empty messages", empty)
	}
	// The job takes 5 s, a stream 1 s and a little: a reader that comes back for other
	// reasons than the end of its stream comes back far more often.
	if n := requests(); n < 2 || n > 8 {
		t.Errorf("%d requests", n)
	}
}

func status(session string) string { return "/api/v1/sessions/" + session + "/summary/status" }

// submit starts a job that goes through both layers of retries.
func submit(t *testing.T, api, session string) {
	t.Helper()
	body := `{"input":{"text":"We agreed to meet on Monday."},"simulate":["529:1s","529:1s","529:1s","ok:1s"]}`
	resp, err := http.Post(api+"/api/v1/sessions/"+session+"/summary", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("submit: %s", resp.Status)
	}
}

// replay is what the log has after an event, read without any of the readers.
func replay(t *testing.T, api, session, after string) (all []message) {
	t.Helper()
	resp, err := http.Get(api + status(session) + "?last_event_id=" + after)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var m message
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			m.ID = value
		case "event":
			m.Event = value
		case "data":
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		t.Fatalf("nothing after %s: %s", after, resp.Status)
	}
	return all
}

// countingProxy passes everything on at once, and counts requests.
func countingProxy(t *testing.T, api string) (address string, requests func() int64) {
	target, err := url.Parse(api)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, count.Load
}

// program builds and starts `tidings dev` and returns its address.
func program(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("TIDINGS_PROGRAM")
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "tidings")
		run(t, "../..", "go", "build", "-o", binary, "./cmd/tidings")
	}
	cmd := exec.Command(binary, "dev")
	cmd.Env = []string{
		"HOME=" + t.TempDir(), "TIDINGS_LISTEN=127.0.0.1:0", "TIDINGS_OPS_LISTEN=127.0.0.1:0", "TIDINGS_LOG_LEVEL=error",
		"TIDINGS_CALL_FIRST_PAUSE=10ms", "TIDINGS_QUEUE_DELAYS=1s", "TIDINGS_HEARTBEAT=100ms", "TIDINGS_STREAM_MAX_AGE=1s",
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

// run executes a command in a directory; the test fails with what it said.
func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
