package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// look writes down everything about a target that a deployment depends on.
func look(t redisTarget) string {
	var kind, user, password, addrs string
	var db int
	var secure, bounded bool
	switch {
	case t.sentinel != nil:
		o := t.sentinel
		kind = "sentinel " + o.MasterName + " " + o.SentinelUsername + ":" + o.SentinelPassword
		user, password, db = o.Username, o.Password, o.DB
		addrs, secure, bounded = strings.Join(o.SentinelAddrs, ","), o.TLSConfig != nil, o.ContextTimeoutEnabled
	case t.cluster != nil:
		o := t.cluster
		kind, user, password = "cluster", o.Username, o.Password
		addrs, secure, bounded = strings.Join(o.Addrs, ","), o.TLSConfig != nil, o.ContextTimeoutEnabled
	default:
		o := t.single
		kind, user, password, db = "single", o.Username, o.Password, o.DB
		addrs, secure, bounded = o.Addr, o.TLSConfig != nil, o.ContextTimeoutEnabled
	}
	return fmt.Sprintf("%s|%s:%s|%s|db=%d|tls=%t|bounded=%t", kind, user, password, addrs, db, secure, bounded)
}

func TestRedisURL(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://127.0.0.1":                     "single|:|127.0.0.1:6379|db=0|tls=false|bounded=true",
		"redis://app:s3cret@cache:7000/2":       "single|app:s3cret|cache:7000|db=2|tls=false|bounded=true",
		"redis://:s3cret@cache":                 "single|:s3cret|cache:6379|db=0|tls=false|bounded=true",
		"rediss://app:s3cret@cache":             "single|app:s3cret|cache:6379|db=0|tls=true|bounded=true",
		"redis://cache?pool_size=7":             "single|:|cache:6379|db=0|tls=false|bounded=true",
		"redis-cluster://app:s3cret@a?addr=b:1": "cluster|app:s3cret|a:6379,b:1|db=0|tls=false|bounded=true",
		"rediss-cluster://a:7000":               "cluster|:|a:7000|db=0|tls=true|bounded=true",
		"redis-sentinel://s:sp@a:26379/3?master_name=m&username=app&password=s3cret&addr=b:26379": "sentinel m s:sp|app:s3cret|a:26379,b:26379|db=3|tls=false|bounded=true",
		"rediss-sentinel://a:26379?master_name=m":                                                 "sentinel m :|:|a:26379|db=0|tls=true|bounded=true",
	} {
		got, err := parseRedisURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if look(got) != want {
			t.Errorf("%s:\n got %s\nwant %s", raw, look(got), want)
		}
	}
}

func TestRedisURLRefused(t *testing.T) {
	for _, raw := range []string{
		"", "cache:6379", "http://cache", "unix:///run/redis.sock", "redis-ring://a", "rediss-",
		"redis://app:s3cret@cache:port", "redis://app:s3cret@cache/two", "redis://app:s3cret@cache?nonsense=1",
		"redis-sentinel://app:s3cret@a:26379", "redis-cluster://app:s3cret@a?addr=b", "redis://app:s3cret@ca che",
	} {
		_, err := parseRedisURL(raw)
		if err == nil {
			t.Errorf("%q was accepted", raw)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error shows the password: %v", raw, err)
		}
	}
}

func TestRedisTargetOpensTheRightClient(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://a":                        fmt.Sprintf("%T", &redis.Client{}),
		"redis-sentinel://a?master_name=m": fmt.Sprintf("%T", &redis.Client{}),
		"redis-cluster://a":                fmt.Sprintf("%T", &redis.ClusterClient{}),
	} {
		target, err := parseRedisURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		c := target.open()
		if got := fmt.Sprintf("%T", c); got != want {
			t.Errorf("%s opens a %s, want %s", raw, got, want)
		}
		tries := 0
		switch c := c.(type) {
		case *redis.Client:
			tries = c.Options().DialerRetries
		case *redis.ClusterClient:
			tries = c.Options().DialerRetries
		}
		if tries < 1 || tries > 2 { // go-redis's five make callers wait
			t.Errorf("%s is dialled %d times before a command counts as failed", raw, tries)
		}
		if cluster, ok := c.(*redis.ClusterClient); ok && cluster.Options().ClusterStateReloadInterval != lookAgain {
			t.Errorf("a cluster's client looks for new masters every %s", cluster.Options().ClusterStateReloadInterval)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
