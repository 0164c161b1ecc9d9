// Package eventstest is what tests of and with package events share: the suite
// that every events.Log passes, a log in memory whose live copies can be lost,
// doubled and held back on demand, and a private redis-server that can be
// stopped, killed and frozen.
package eventstest
