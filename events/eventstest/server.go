package eventstest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

	t     testing.TB
	dir   string
	port  int
	bus   int                      // of a cluster's node
	args  func() ([]string, error) // what to start redis-server with
	ready string                   // what it says when it serves

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

// StartRedis starts a redis-server and returns once it answers. Further
// arguments go to redis-server as they are ("--cluster-enabled", "yes").
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), ready: "Ready to accept connections"}
	s.args = func() ([]string, error) {
		return append([]string{
			"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
			"--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction",
			"--daemonize", "no", "--enable-debug-command", "local",
		}, args...), nil
	}
	s.launch()
	return s
}

// StartSentinel starts a Redis Sentinel that watches over master and its
// replicas, by the name "tidings", and decides alone.
func StartSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), ready: "+monitor master"}
	s.args = func() ([]string, error) {
		file := filepath.Join(s.dir, "sentinel.conf") // a sentinel wants to write to it
		config := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n"+
			"sentinel monitor tidings 127.0.0.1 %d 1\n"+
			"sentinel down-after-milliseconds tidings 500\nsentinel failover-timeout tidings 5000\n",
			s.port, s.dir, master.port)
		return []string{file, "--sentinel"}, os.WriteFile(file, []byte(config), 0o600)
	}
	s.launch()
	return s
}

// launch starts the server for the first time.
func (s *Server) launch() {
	t := s.t
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("eventstest: these tests need a real Redis: apt-get install redis-server (or brew install redis)")
	}
	t.Cleanup(s.Kill)
	// A port that was free a moment ago may be taken by now: try some.
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			continue
		}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		if err = s.start(); err == nil {
			return
		}
	}
	t.Fatalf("eventstest: redis-server does not start: %v", err)
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
	args, err := s.args()
	if err != nil {
		return err
	}
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
		ready <- readyLine(out, s.ready)
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

// readyLine reads until the server says that it is ready and returns
// "", or the last line that it wrote before it ended.
func readyLine(out io.Reader, ready string) string {
	last := "it ended without a word"
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line := lines.Text(); strings.Contains(line, ready) {
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
