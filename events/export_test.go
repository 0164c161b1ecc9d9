package events

import "time"

// SetHealth shortens what a test would otherwise wait for.
func (l *RedisLog) SetHealth(pingEvery, deadAfter time.Duration) {
	l.health = health{pingEvery, deadAfter}
}
