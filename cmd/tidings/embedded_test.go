package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

func TestEmbeddedRedisIsForDevWithoutURLOnly(t *testing.T) {
	for _, mode := range []string{"serve", "work", "all", "check"} {
		if _, _, err := redisFor(mode, &settings{}); err == nil {
			t.Errorf("%s started a Redis of its own", mode)
		}
	}
	given, err := parseRedisURL("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	target, stop, err := redisFor("dev", &settings{redis: &given})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if target.single.Addr != "127.0.0.1:1" {
		t.Errorf("dev uses %s although a URL is set", target.single.Addr)
	}
}

func TestEmbeddedRedisExpiresKeysAndListensOnLoopback(t *testing.T) {
	target, stop, err := redisFor("dev", &settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	host, _, err := net.SplitHostPort(target.single.Addr)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("it listens on %s (%v)", target.single.Addr, err)
	}
	c := target.open()
	defer c.Close()
	ctx := t.Context()
	if err := c.Set(ctx, "k", "v", 30*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	// Nothing turns its clock by hand: asking again and again must be enough.
	for until := time.Now().Add(5 * time.Second); ; {
		n, err := c.Exists(ctx, "k").Result()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("a key of 30 ms is still there after 5 s")
		}
	}
	// A script's idea of the time must move on by itself too.
	first, err := c.Eval(ctx, "local t = redis.call('TIME'); return t[1] .. '.' .. t[2]", nil).Text()
	if err != nil || !strings.Contains(first, ".") {
		t.Fatalf("TIME in a script: %q, %v", first, err)
	}
}
