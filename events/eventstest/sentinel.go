package eventstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sentinels is one master with two replicas, watched over by three sentinels
// under the name "tidings", two of which must agree. Every process ends with
// the test.
type Sentinels struct {
	group
	// URL is the redis-sentinel:// URL of all three.
	URL string

	watchers []*Server
}

// StartSentinels starts the six processes and returns once both replicas have
// the master's data and every sentinel knows all the others.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{group: group{t: t}}
	master := StartRedis(t, replicated()...)
	s.Nodes = []*Server{master}
	for range 2 {
		s.Nodes = append(s.Nodes, StartRedis(t, append(replicated(), "--replicaof", "127.0.0.1", strconv.Itoa(master.port))...))
	}
	s.linked(s.Nodes[1:])
	var addrs []string
	for range 3 {
		w := startWatcher(t, master)
		s.watchers = append(s.watchers, w)
		addrs = append(addrs, w.Addr)
	}
	s.URL = "redis-sentinel://" + addrs[0] + "/0?master_name=tidings&addr=" + addrs[1] + "&addr=" + addrs[2]
	for _, w := range s.watchers {
		c := w.Client()
		s.until("each sentinel knows the others and the replicas", func() bool {
			info, err := c.Info(t.Context(), "sentinel").Result()
			return err == nil && strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=2,sentinels=3")
		})
	}
	return s
}

// replicated is what speeds a node's first synchronization up.
func replicated() []string { return []string{"--repl-diskless-sync-delay", "0"} }

func startWatcher(t testing.TB, master *Server) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), ready: "+monitor master"}
	s.args = func() ([]string, error) {
		file := filepath.Join(s.dir, "sentinel.conf") // a sentinel wants to write to it
		config := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n"+
			"sentinel monitor tidings 127.0.0.1 %d 2\n"+
			"sentinel down-after-milliseconds tidings 1000\n"+
			// Twice that passes before the next try when the votes were split.
			"sentinel failover-timeout tidings 3000\n",
			s.port, s.dir, master.port)
		return []string{file, "--sentinel"}, os.WriteFile(file, []byte(config), 0o600)
	}
	s.launch()
	return s
}

// Client returns a client that asks the sentinels for the master. It ends with
// the test.
func (s *Sentinels) Client() redis.UniversalClient {
	s.t.Helper()
	var addrs []string
	for _, w := range s.watchers {
		addrs = append(addrs, w.Addr)
	}
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "tidings", SentinelAddrs: addrs, ContextTimeoutEnabled: true,
	})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// MasterOf is the server that serves a key, which is the one master.
func (s *Sentinels) MasterOf(string) *Server {
	s.t.Helper()
	var found *Server
	s.until("there is one master", func() bool {
		found = nil
		for _, n := range s.running() {
			if n.role() == "master" {
				if found != nil {
					return false
				}
				found = n
			}
		}
		return found != nil
	})
	return found
}

// FailedOver waits until another server than old serves the key.
func (s *Sentinels) FailedOver(old *Server, key string) {
	s.t.Helper()
	s.until("there is a new master", func() bool {
		for _, n := range s.running() {
			if n != old && n.role() == "master" {
				return true
			}
		}
		return false
	})
}

// Mend waits until what is left after a fail-over is one master and its
// replicas. The old master stays away: the sentinels would need 10 s for it.
func (s *Sentinels) Mend() {
	s.t.Helper()
	s.linked(s.ReplicasOf(s.MasterOf("")))
}

// group is servers that replicate.
type group struct {
	// Nodes are the servers with data.
	Nodes []*Server

	t testing.TB
}

func (g *group) running() (up []*Server) {
	for _, n := range g.Nodes {
		if n.PID() != 0 {
			up = append(up, n)
		}
	}
	return up
}

// ReplicasOf are the running replicas of a master.
func (g *group) ReplicasOf(master *Server) (replicas []*Server) {
	g.t.Helper()
	for _, n := range g.running() {
		info := n.replication()
		if info["role"] == "slave" && info["master_port"] == strconv.Itoa(master.port) {
			replicas = append(replicas, n)
		}
	}
	return replicas
}

// Detach cuts a master's replicas off: what it is told from now on is nowhere
// else, until Attach. They keep trying and are refused, so that whoever watches
// sees nothing to mend, and may become masters.
func (g *group) Detach(master *Server) {
	g.t.Helper()
	c := master.ask()
	defer c.Close()
	replicas := g.ReplicasOf(master)
	for _, r := range replicas {
		r.config("masteruser", "nobody")
		r.config("masterauth", "wrong")
	}
	if len(replicas) == 0 {
		g.t.Fatal("eventstest: the master has no replicas to detach")
	}
	g.until("the replicas are detached", func() bool {
		_ = c.Do(g.t.Context(), "client", "kill", "type", "replica").Err()
		for _, r := range replicas {
			if r.replication()["master_link_status"] != "down" {
				return false
			}
		}
		return true
	})
}

// Attach ends Detach, wherever the replicas have got to.
func (g *group) Attach() {
	g.t.Helper()
	for _, n := range g.running() {
		n.config("masterauth", "")
		n.config("masteruser", "")
	}
}

// linked waits until replicas have all that their master has.
func (g *group) linked(replicas []*Server) {
	g.t.Helper()
	g.until("the replicas are linked", func() bool {
		for _, r := range replicas {
			if r.replication()["master_link_status"] != "up" {
				return false
			}
		}
		return true
	})
}

// until waits for what happens in other processes, and on a busy machine.
func (g *group) until(what string, ok func() bool) {
	g.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(60 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			g.t.Fatalf("eventstest: after 60 s still not: %s", what)
		}
	}
}

// ask is a connection for one or two questions.
func (s *Server) ask() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, PoolSize: 1})
}

func (s *Server) role() string { return s.replication()["role"] }

// replication is what INFO says of it; nothing while the server does not answer.
func (s *Server) replication() map[string]string {
	c := s.ask()
	defer c.Close()
	text, _ := c.Info(s.t.Context(), "replication").Result()
	return fields(text, ":")
}

func (s *Server) config(name, value string) {
	s.t.Helper()
	c := s.ask()
	defer c.Close()
	if err := c.ConfigSet(s.t.Context(), name, value).Err(); err != nil {
		s.t.Fatalf("eventstest: %v", err)
	}
}

// fields reads lines of name and value.
func fields(text, between string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), between); ok {
			all[name] = value
		}
	}
	return all
}
