// Package events remembers what happened to every topic (one session's
// workload of one owner) and tells it to whoever follows the topic.
//
// # The log is the truth
//
// A topic's status is the newest entry of its log. Log.Append, and every
// script that begins with Lua, does three things in one atomic step: it checks
// that the new status may follow the current one (May, Follows), stores the
// transition, and publishes a copy of it. Nothing sets a status without
// publishing, and nothing publishes without storing.
//
// A transition's place, Seq, is Redis time in milliseconds, or its
// predecessor's plus one if that is larger: strictly growing, also over jobs
// and over the expiry of the log. Each transition carries its predecessor's
// place, Prev, so that a reader knows from one copy alone whether it has missed
// something.
//
// # Copies may be lost
//
// Redis forgets a published message that nobody hears, and go-redis reconnects
// without saying so to those who read. So a copy is only ever a hint:
//
//	subscribe   Subscribe waits for the storage's confirmation, then reads the
//	            log; copies queue meanwhile and those not newer are dropped
//	gap         a copy whose Prev is not the last one seen: read the log
//	resubscribe a second confirmation of a topic: copies may be missing, so
//	            compare its head with the log, all topics in batches
//	heads       every HeadsEvery the same for all topics: finds what nothing
//	            else can, a lost last copy. Live jobs of which something should
//	            have been heard are passed on (HubOptions.Overdue)
//	lag         a reader whose buffer is full gets no more copies; when it has
//	            taken what it has, the log is read from there
//	lost tail   the log knows less than a reader has seen (a fail-over of
//	            Redis): the reader gets the current state marked Reset
//
// # Who runs what
//
//	Hub.Run       receives from the one live connection and never waits
//	compareLoop   asks the log for heads, up to 500 topics a time
//	readLoop (4)  read the log for topics with a gap, once for all readers
//	Next          the reader's own goroutine; it only waits
//
// A subscription holds at most Buffer copies, or one read of the log (MaxLog).
// While the storage is away, Subscribe fails with ErrUnavailable, and streams
// that are open stay open and heal.
//
// RedisLog is the log in production. Package eventstest has the suite that
// every log passes, and one in memory that loses copies on demand.
package events
