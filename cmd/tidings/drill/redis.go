package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// store is the Redis of one row. The drill starts it and ends it, and takes no
// address from anybody: what it does to a Redis must never happen to one that is
// in use.
type store struct {
	addr   string // host:port
	what   string // which Redis and version
	client *redis.Client
	stop   func()
}

// startStore starts a Redis: the server at this path, or without one the
// embedded one.
func startStore(ctx context.Context, server string, embedded func() (string, func(), error)) (*store, error) {
	if server == "" {
		url, stop, err := embedded()
		if err != nil {
			return nil, err
		}
		s := &store{addr: strings.TrimPrefix(url, "redis://"), what: "embedded in the program", stop: stop}
		return s, s.connect(ctx)
	}
	dir, err := os.MkdirTemp("", "tidings-drill-redis-")
	if err != nil {
		return nil, err
	}
	// A port that was free a moment ago may be taken by now: try some.
	for range 5 {
		var s *store
		if s, err = launch(ctx, server, dir); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	_ = os.RemoveAll(dir)
	return nil, fmt.Errorf("%s does not start: %w", server, err)
}

func launch(ctx context.Context, server, dir string) (*store, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(server, "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no",
		"--maxmemory-policy", "noeviction", "--daemonize", "no")
	cmd.Env = []string{}
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }() // ends with the process
	s := &store{addr: addr}
	s.stop = func() {
		_ = cmd.Process.Kill()
		<-exited
		_ = os.RemoveAll(dir)
	}
	if err := s.connect(ctx); err != nil {
		s.close()
		return nil, err
	}
	// Whoever took the port in between would answer as well: ask who it is.
	info, err := s.client.Info(ctx, "server").Result()
	if err == nil && infoField(info, "process_id") != strconv.Itoa(cmd.Process.Pid) {
		err = errors.New("another Redis answers at its port")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.what = "redis-server " + infoField(info, "redis_version")
	return s, nil
}

// connect waits until it answers. The first try is not the client's, which would
// write into the terminal that nobody is there yet.
func (s *store) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "tcp", s.addr)
		if err == nil {
			_ = c.Close()
			s.client = redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, ContextTimeoutEnabled: true})
			return s.client.Ping(ctx).Err()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// now is Redis's own time, which the gate's formula goes by.
func (s *store) now(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() }

func (s *store) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	s.stop()
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	return ""
}
