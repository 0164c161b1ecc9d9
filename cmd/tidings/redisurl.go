package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisTarget is what a Redis URL asks for: exactly one of the three is set.
type redisTarget struct {
	single   *redis.Options
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

// parseRedisURL reads redis://, redis-sentinel:// and redis-cluster:// URLs and
// their TLS forms with rediss. go-redis tells the three apart by the function
// called and knows only the first scheme, so the other two are rewritten here.
//
// In a sentinel URL user and password are the sentinels' own; the servers' go
// into ?username= and ?password=.
func parseRedisURL(raw string) (redisTarget, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	base, kind, _ := strings.Cut(scheme, "-")
	if !ok || base != "redis" && base != "rediss" {
		return redisTarget{}, errors.New("the scheme is none of redis, rediss, redis-sentinel, rediss-sentinel, redis-cluster, rediss-cluster")
	}
	var t redisTarget
	var err error
	switch kind {
	case "":
		if t.single, err = redis.ParseURL(raw); err == nil {
			t.single.ContextTimeoutEnabled = true
		}
	case "sentinel":
		t.sentinel, err = redis.ParseFailoverURL(base + "://" + rest)
		if err == nil && t.sentinel.MasterName == "" {
			err = errors.New("a sentinel URL needs ?master_name=")
		}
		if err == nil {
			t.sentinel.ContextTimeoutEnabled = true
		}
	case "cluster":
		if t.cluster, err = redis.ParseClusterURL(base + "://" + rest); err == nil {
			t.cluster.ContextTimeoutEnabled = true
			t.cluster.ClusterStateReloadInterval = lookAgain
			if t.cluster.TLSConfig != nil {
				t.cluster.TLSConfig.MinVersion = tls.VersionTLS12 // as go-redis does for the other two
			}
		}
	default:
		err = fmt.Errorf("there is no kind %q of Redis URL", kind)
	}
	// url.Error quotes the whole URL, and with it the password.
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = errors.New("this is not a URL")
	}
	if err != nil {
		return redisTarget{}, err
	}
	return t, nil
}

// hasPassword tells whether a Redis URL carries one, as user info or parameter.
func hasPassword(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return true // whoever reads it may make something of it
	}
	_, given := u.User.Password()
	return given || u.Query().Has("password")
}

// evictionWarning says what to do when Redis may throw jobs away for want of
// memory, and is empty otherwise.
func evictionWarning(ctx context.Context, client redis.UniversalClient) string {
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return "" // other checks say that it is away
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok && policy != "noeviction" {
			return "Redis may evict jobs: maxmemory-policy is " + policy + "; set it to noeviction"
		}
	}
	return ""
}

// lookAgain is how often a client looks who serves which part of a Cluster. A
// dead master tells nobody who has taken over, and go-redis by itself looks once
// a minute.
const lookAgain = 2 * time.Second

// dials is how often a connection is tried before a command counts as failed.
// go-redis tries five times with 100 ms in between, in each of its four tries at a
// command, and we try the command once more ourselves: callers would hear of a
// Redis that is away after 4 s. Where another server may take over, a second look
// costs little.
func dials(set, ours int) int {
	if set > 0 { // in the URL
		return set
	}
	return ours
}

// open makes the client. It does not connect yet.
func (t redisTarget) open() redis.UniversalClient {
	switch {
	case t.sentinel != nil:
		t.sentinel.DialerRetries = dials(t.sentinel.DialerRetries, 2)
		return redis.NewFailoverClient(t.sentinel)
	case t.cluster != nil:
		t.cluster.DialerRetries = dials(t.cluster.DialerRetries, 2)
		return redis.NewClusterClient(t.cluster)
	default:
		t.single.DialerRetries = dials(t.single.DialerRetries, 1)
		return redis.NewClient(t.single)
	}
}
