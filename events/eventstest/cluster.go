package eventstest

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of three masters with a replica each. Every
// process ends with the test.
type Cluster struct {
	group
	// URL is the redis-cluster:// URL of all nodes.
	URL string
}

// slots is how many a cluster has.
const slots = 16384

// StartCluster starts the six processes, makes a cluster of them, and returns
// once every node agrees and every replica has its master's data.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{group: group{t: t}}
	ids := make([]string, 6)
	for i := range ids {
		n := startNode(t)
		c.Nodes = append(c.Nodes, n)
		ids[i] = n.cluster("myid")
		n.cluster("set-config-epoch", i+1)
	}
	first := c.Nodes[0]
	for _, n := range c.Nodes[1:] {
		n.cluster("meet", "127.0.0.1", first.port, first.bus)
	}
	for i, n := range c.Nodes[:3] {
		n.cluster("addslotsrange", i*slots/3, (i+1)*slots/3-1)
	}
	c.until("every node knows all", func() bool { return c.agree("cluster_known_nodes", "6") })
	for i, n := range c.Nodes[3:] {
		n.cluster("replicate", ids[i])
	}
	c.until("the cluster is whole", func() bool { return c.agree("cluster_state", "ok") && c.agree("cluster_size", "3") })
	c.linked(c.Nodes[3:])
	c.until("every node knows who replicates whom", func() bool {
		for _, n := range c.Nodes {
			if n.replicas() != 3 {
				return false
			}
		}
		return true
	})
	c.URL = "redis-cluster://" + first.Addr + "?addr=" + c.Nodes[1].Addr
	for _, n := range c.Nodes[2:] {
		c.URL += "&addr=" + n.Addr
	}
	return c
}

func startNode(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), ready: "Ready to accept connections"}
	s.args = func() ([]string, error) {
		if s.bus == 0 { // its default, the port and 10000, may be no port
			var err error
			if s.bus, err = freePort(); err != nil {
				return nil, err
			}
		}
		return append(replicated(), "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
			"--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no",
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(s.bus), "--cluster-node-timeout", "1500",
			// However old its data, the replica takes over.
			"--cluster-replica-validity-factor", "0"), nil
	}
	s.launch()
	return s
}

// Client returns a client of the cluster that ends with the test.
func (c *Cluster) Client() redis.UniversalClient {
	c.t.Helper()
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, ContextTimeoutEnabled: true, ClusterStateReloadInterval: time.Second, // see cmd/tidings/redisurl.go
	})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// MasterOf is the server that serves a key.
func (c *Cluster) MasterOf(key string) *Server {
	c.t.Helper()
	var found *Server
	c.until("a master has the slot of "+key, func() bool {
		found = c.serves(key)
		return found != nil
	})
	return found
}

// FailedOver waits until another server than old serves the key.
func (c *Cluster) FailedOver(old *Server, key string) {
	c.t.Helper()
	c.until("there is a new master", func() bool {
		n := c.serves(key)
		return n != nil && n != old
	})
}

// Mend brings a master that was stopped back, as its successor's replica.
func (c *Cluster) Mend() {
	c.t.Helper()
	for _, n := range c.Nodes {
		if n.PID() == 0 {
			n.Start()
		}
	}
	c.until("every master has a replica", func() bool {
		replicas := 0
		for _, n := range c.Nodes {
			if info := n.replication(); info["role"] == "slave" && info["master_link_status"] == "up" {
				replicas++
			}
		}
		return replicas == 3
	})
}

func (c *Cluster) serves(key string) *Server {
	for _, n := range c.running() {
		if n.role() != "master" {
			continue
		}
		ask := n.ask()
		err := ask.Exists(c.t.Context(), key).Err()
		_ = ask.Close()
		if err == nil { // others answer MOVED
			return n
		}
	}
	return nil
}

// agree tells whether CLUSTER INFO says the same of a field on every node.
func (c *Cluster) agree(field, want string) bool {
	for _, n := range c.Nodes {
		if fields(n.cluster("info"), ":")[field] != want {
			return false
		}
	}
	return true
}

// replicas is how many the node knows of in the whole cluster.
func (s *Server) replicas() (n int) {
	c := s.ask()
	defer c.Close()
	shards, _ := c.ClusterShards(s.t.Context()).Result()
	for _, shard := range shards {
		n += len(shard.Nodes) - 1
	}
	return n
}

// cluster asks a node a CLUSTER command.
func (s *Server) cluster(args ...any) string {
	s.t.Helper()
	c := s.ask()
	defer c.Close()
	text, err := c.Do(s.t.Context(), append([]any{"cluster"}, args...)...).Text()
	if err != nil {
		s.t.Fatalf("eventstest: CLUSTER %v: %v", args, err)
	}
	return text
}
