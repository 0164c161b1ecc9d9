package main

import (
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// startEmbedded starts a Redis in this process, for trying things out: on a
// loopback port of its own, in memory only. The URL is what TIDINGS_REDIS_URL
// would say.
func startEmbedded() (url string, stop func(), err error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // keys expire as time goes by, as they do in Redis
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return "", nil, fmt.Errorf("embedded Redis: %w", err)
	}
	return "redis://" + m.Addr(), m.Close, nil
}

// redisFor decides where a mode's Redis is. Only dev ever gets the embedded
// one, and only when no URL is set: a service that quietly forgot everything at
// its next restart would be worse than one that does not start.
func redisFor(mode string, s *settings) (target redisTarget, stop func(), err error) {
	if s.redis != nil {
		return *s.redis, func() {}, nil
	}
	if mode != "dev" {
		return redisTarget{}, nil, errors.New("TIDINGS_REDIS_URL is not set")
	}
	url, stop, err := startEmbedded()
	if err != nil {
		return redisTarget{}, nil, err
	}
	if target, err = parseRedisURL(url); err != nil {
		stop()
	}
	return target, stop, err
}
