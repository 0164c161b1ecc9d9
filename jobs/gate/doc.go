// Package gate is the fleet's gate in front of one dependency (a provider and
// its model): every call to a provider, first or repeated, from whatever
// process, needs a ticket here first (S4-20). The gate holds no state of its
// own. Everything lives in Redis, in keys that all replicas share, and each
// verb is one script there on Redis's own clock, so ten processes together get
// what one would get and no process's clock matters (S4-17).
//
// # What a ticket checks, in this order
//
//  1. Kill switch, for anything but a job's first call: Stop, retries_disabled.
//  2. Pause by an operator: Wait, dependency_paused.
//  3. Hold: the provider said "not before T" to at least FailureRatio of the calls in
//     Window, which is taken for the account: Wait, rate_limited. What it said to
//     fewer is for their jobs alone.
//  4. Breaker: Wait, breaker_open.
//  5. Places: Wait, overloaded. The contract's list has no word for "no permit
//     free"; of those it has, this one is true for who reads it: as many calls
//     run as the dependency can take, nobody has paused anything, and it is over
//     in seconds.
//  6. Retry budget: Stop, retry_budget.
//
// Only when all agree is anything taken: all or nothing. A refusal takes
// nothing. Waiting is never done here: Wait carries a time, and the caller gives
// its worker slot back until then.
//
// # Who waits goes together
//
// A process runs one script at a time for each dependency and verb. Who asks while
// it runs goes with the next, up to 64 of them: one script that reads the state
// once, decides one after the other as if each had come alone, and writes the state
// once. Nobody is held back for company, so one caller alone gets a script of its
// own at once; the more is asked, the less each costs (decision 15). A script that
// fails has failed for all who shared it, and each is told. Who waits behind one
// that takes longer than 250 ms goes on beside it.
//
// # Permits
//
// A permit is a member of a sorted set with the end of its lease as its score. The
// place of a holder that dies is free when the lease ends, which is a little longer
// than its call may take. What ends without a report is taken as sent: nothing of it
// comes back but the place, and a report that comes later says nothing.
//
// First calls go before repeated ones: the latter leave the share FirstReserve
// of the places free.
//
// Ticket may be repeated with its token while the permit lives and gives the same
// answer without taking anything twice, whatever has changed since (but for the
// kill switch, which is asked before). Refusals took nothing, so they are decided
// anew. Report may be repeated too: only the first report of a permit
// counts. A token that is asked again after its report is a new call, and paid
// for anew.
//
// # Retry budget
//
// Two buckets, full at the start, which time and admitted first calls fill:
//
//	retries(t) <= Burst + PerFirst x first calls + PerSecond x t          (100 + 0.2 f + 1/s)
//	manual(t)  <= ManualShare x the same                                  ( 25 + 0.05 f + 0.25/s)
//
// A call that is not its job's first takes a token of the first bucket. The first
// call of a job that a user's tap started takes one of the second, which is its
// own so that an outage that used up the first does not lock users out, and the
// other way round. Neither ever holds more than its burst. A first call earns
// when it is reported as sent, and a manual one earns nothing, so a crash between
// ticket and call can only lower the budget. A token comes back in one case
// alone: the report says that nothing was sent (S4-25).
//
// # Breaker
//
//	         failures >= FailureRatio of >= WindowCalls calls in Window
//	closed ---------------------------------------------------------> open
//	  ^                                                              |    ^
//	  | Probes good ones                          OpenFor x 2^trips, |    | a bad probe, or one
//	  | (concurrency starts                       at most OpenMax    |    | whose lease ended
//	  |  at Probes)                                                  v    |
//	  +--------------------------------------------------------- half open
//	                                     at most Probes under way + good
//
// Every change of state begins a new generation, and a result counts only in the
// generation its permit is from: calls that were sent before the outage was seen
// neither close nor open anything.
//
// What each result means to the breaker:
//
//	ok                                                  good
//	overloaded, unavailable, timeout, network,
//	stream_interrupted                                  bad
//	rate_limited                                        closed: nothing but fewer places; half open: bad
//	auth, quota, misconfigured, invalid_input, invalid_output,
//	internal, cancelled                                 nothing
//
// A refused key, an empty purse or a bad prompt says nothing about whether the
// provider can carry load, and opening for it would hide it from the one job that
// should fail with it. rate_limited says that the provider is well and we are too
// many: fewer places and the hold are the answer, not an opened breaker.
//
// The allowed concurrency moves between Probes and Concurrency: each good call
// adds Growth, a bad or rate-limited one multiplies it by Shrink, at most once a
// second, and the breaker's opening sets it to Probes. So after an outage the load
// grows only while calls succeed, and stays behind the gate after the first good
// probe (S4-30, S4-41).
//
// # Kill switch
//
// One small hash for the whole fleet (all, a dependency, a workload). It is in a
// slot of its own on a Redis Cluster, so no dependency's script can read it; the
// ticket of a repeated call reads it first, uncached, as one more round trip. That
// is exact (it counts at the next ticket, everywhere), needs no copies that can
// be forgotten, and first calls, the many, do not pay for it. A manual retry's
// first call is a first call and goes on, within its share.
//
// # How it fails
//
// Redis away, slow or read-only: an error, and the caller must not call (fail
// closed, S4-19). The answer lost after the script ran: repeat it, or leave it to
// the lease. A fail-over that loses the last moments forgets permits and spent
// tokens of these moments: at most that many calls more than the formula. A clock
// of Redis that jumps back earns nothing until it has caught up.
//
// # Keys
//
//	tidings:{gate/<dependency>}:state     hash: breaker, buckets, pause, who holds what
//	tidings:{gate/<dependency>}:permits   sorted set: permit -> end of its lease
//	tidings:{gate/<dependency>}:audit     list: the last 100 pauses and resumptions
//	tidings:{gate}:off                    hash: what is switched off
//	tidings:{gate}:audit                  list: the last 100 switches
//
// All of them expire 8 days after their last use, which is longer than any pause
// and than any bucket takes to fill.
package gate
