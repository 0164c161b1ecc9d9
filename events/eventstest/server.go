package eventstest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a private redis-server on a loopback port of its own, with an
// append-only file in the test's directory, so that Stop and Start lose
// nothing. It ends with the test. Every method fails the test when it cannot
// do what it says.
type Server struct {
	// Addr is host:port. It stays the same over Stop and Start.
	Addr string

	t    testing.TB
	dir  string
	port int
	args []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// StartRedis starts a redis-server and returns once it answers. Further
// arguments go to redis-server as they are ("--cluster-enabled", "yes").
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("eventstest: these tests need a real Redis: apt-get install redis-server (or brew install redis)")
	}
	s := &Server{t: t, dir: t.TempDir(), args: args}
	t.Cleanup(s.Kill)
	// A port that was free a moment ago may be taken by now: try some.
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			continue
		}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatalf("eventstest: redis-server does not start: %v", err)
	return nil
}

// URL is the server's redis:// URL.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Client returns a client of the server that ends with the test.
func (s *Server) Client() redis.UniversalClient {
	s.t.Helper()
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		s.t.Fatalf("eventstest: %v", err)
	}
	o.ContextTimeoutEnabled = true
	c := redis.NewClient(o)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Start starts the server again after Stop or Kill, on the same port with the
// data that it had.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatalf("eventstest: redis-server does not start again: %v", err)
	}
}

// Stop ends the server the polite way; everything is on disk then.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once, as a crash does. What it had answered before
// is in its file all the same, since only the process is gone.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Freeze stops the server's process without ending it: connections stay open
// and nothing answers.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

// PID is the process to look at; 0 while the server is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return errors.New("it runs already")
	}
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction",
		"--daemonize", "no", "--enable-debug-command", "local",
	}, s.args...)
	cmd := exec.Command("redis-server", args...)
	dieWithParent(cmd)
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return err
	}
	ready := make(chan string, 1)
	exited := make(chan struct{})
	// Ends with the process: it holds the only writing end of the pipe.
	go func() {
		defer close(exited)
		ready <- readyLine(out)
		_, _ = io.Copy(io.Discard, out)
		_ = out.Close()
		_ = cmd.Wait()
	}()
	select {
	case problem := <-ready:
		if problem == "" {
			s.cmd, s.exited = cmd, exited
			return nil
		}
		err = errors.New(problem)
	case <-time.After(20 * time.Second):
		err = errors.New("not ready after 20 s")
	}
	_ = cmd.Process.Kill()
	<-exited
	return err
}

func (s *Server) end(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // a frozen process must see it
	select {
	case <-s.exited:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	s.cmd = nil
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Fatal("eventstest: the server is stopped")
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("eventstest: %v", err)
	}
}

// readyLine reads until the server says that it takes connections and returns
// "", or the last line that it wrote before it ended.
func readyLine(out io.Reader) string {
	last := "it ended without a word"
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line := lines.Text(); strings.Contains(line, "Ready to accept connections") {
			return ""
		} else if line != "" {
			last = line
		}
	}
	return last
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
