package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The end-to-end tests start the program that users get and look at it from
// outside: its output, its answers, its exit code. They wait for what it says
// and never for time to pass.

// wait bounds everything that a test waits for.
const wait = 40 * time.Second

func programDir() string {
	return filepath.Join(os.TempDir(), "tidings-e2e-"+strconv.Itoa(os.Getpid()))
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(programDir())
	os.Exit(code)
}

// program builds the binary, once for all tests.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programDir(), "tidings")
	args := append(append([]string{"build", "-o", path}, raceFlag()...), ".")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// process is one running tidings.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err *output
	exited   chan struct{}
	api, ops string // base URLs, from the ready line
}

// command prepares a process with these settings and nothing else of the
// environment that it could react to.
func command(t *testing.T, env map[string]string, args ...string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(path, args...), out: newOutput(), err: newOutput(), exited: make(chan struct{})}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for name, value := range env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	return p
}

func (p *process) start() *process {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is asked for later
		close(p.exited)
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if p.t.Failed() {
			p.t.Logf("%s\nstdout:\n%s\nstderr:\n%s", p.cmd, p.out, p.err)
		}
	})
	return p
}

// serve starts a mode on ports of its own and returns once it says it is ready.
func serve(t *testing.T, env map[string]string, mode string) *process {
	t.Helper()
	all := map[string]string{"TIDINGS_LISTEN": "127.0.0.1:0", "TIDINGS_OPS_LISTEN": "127.0.0.1:0", "TIDINGS_LOCAL_LATENCY": "0s", "TIDINGS_MODEL": "local"}
	for name, value := range env {
		all[name] = value
	}
	p := command(t, all, mode).start()
	p.says("model=")
	p.addresses()
	return p
}

// addresses reads where the process listens from its ready line.
func (p *process) addresses() {
	for _, word := range strings.Fields(p.out.String()) {
		if v, ok := strings.CutPrefix(word, "api="); ok {
			p.api = v
		}
		if v, ok := strings.CutPrefix(word, "ops="); ok {
			p.ops = v
		}
	}
}

// says waits until the process has written these words.
func (p *process) says(words string) {
	p.t.Helper()
	for deadline := time.After(wait); !strings.Contains(p.out.String(), words); {
		select {
		case <-p.out.changed:
		case <-p.exited:
			if !strings.Contains(p.out.String(), words) {
				p.t.Fatalf("%s has ended without saying %q", p.cmd, words)
			}
		case <-deadline:
			p.t.Fatalf("%s never says %q", p.cmd, words)
		}
	}
}

// code waits for the end and returns the exit code, -1 after a signal.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(wait):
		p.t.Fatalf("%s does not end", p.cmd)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// call makes a request and returns the status, the headers and the JSON.
func call(t *testing.T, method, url, body string) (int, http.Header, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s %s: %v in %s", method, url, err, text)
		}
	}
	return res.StatusCode, res.Header, got
}

// frame is one event as it stands on the wire.
type frame struct {
	id, event string
	data      map[string]any
}

func (f frame) String() string {
	s := f.event
	for _, name := range []string{"layer", "reason", "outcome"} {
		if v, ok := f.data[name].(string); ok && v != "" {
			s += " " + v
		}
	}
	return s
}

// stream reads a status stream strictly, by the letter of the standard, and is
// made of nothing that the product uses.
type stream struct {
	t      *testing.T
	status int
	frames chan frame
	// Set when frames is closed.
	retry string // the last retry: line
	err   error  // why it ended; nil for a clean end
}

// openStream connects; what arrives is in frames, which ends with the stream.
func openStream(t *testing.T, url, cursor string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{t: t, status: res.StatusCode, frames: make(chan frame, 1000)}
	go func() { // ends with the stream, and that with the test's context
		defer res.Body.Close()
		defer close(s.frames)
		s.err = s.read(bufio.NewReader(res.Body))
	}()
	return s
}

func (s *stream) read(body *bufio.Reader) error {
	var f frame
	var data []string
	for {
		line, err := body.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("in the middle of the line %q: %w", line, err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			data = append(data, value)
		case "retry":
			s.retry = value
		case "":
			if line != "\n" || data == nil {
				continue // a comment, or a block without data
			}
			if err := json.Unmarshal([]byte(strings.Join(data, "\n")), &f.data); err != nil {
				return err
			}
			s.frames <- f
			f, data = frame{}, nil
		default:
			return fmt.Errorf("a line that is none: %q", line)
		}
	}
}

// next returns the next event.
func (s *stream) next() frame {
	s.t.Helper()
	select {
	case f, ok := <-s.frames:
		if !ok {
			s.t.Fatalf("the stream has ended: %v", s.err)
		}
		return f
	case <-time.After(wait):
		s.t.Fatal("nothing arrives on the stream")
	}
	return frame{}
}

// until reads up to and with the first event of that name.
func (s *stream) until(event string) []frame {
	s.t.Helper()
	for all := []frame{}; ; {
		f := s.next()
		if all = append(all, f); f.event == event {
			return all
		}
	}
}

// rest reads to the stream's end.
func (s *stream) rest() []frame {
	s.t.Helper()
	for all := []frame{}; ; {
		select {
		case f, ok := <-s.frames:
			if !ok {
				return all
			}
			all = append(all, f)
		case <-time.After(wait):
			s.t.Fatalf("the stream does not end; so far %v", all)
		}
	}
}
