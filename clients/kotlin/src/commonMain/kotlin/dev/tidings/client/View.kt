package dev.tidings.client

import kotlin.time.ComparableTimeMark
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlin.time.Instant

private val CHECK_AFTER = 3.seconds // past the end of a countdown

/** What is shown of one session: its machine, and the machine's times on the client's clock. */
internal class View(private val options: TidingsOptions, sessionId: String, workload: String) {
    private val clock = options.timeSource
    private val made = clock.markNow() // time 0 of the machine
    private var nextTry: ComparableTimeMark? = null
    private var checkAt: ComparableTimeMark? = null // the end of the countdown and a little; null when there is nothing to check
    var machine = Machine(sessionId, workload)
        private set
    var retryFrom: ComparableTimeMark? = null

    /** The countdown has run out without news, and a new stream has not opened yet. */
    var isChecking = false

    /** Gives an input to the machine and takes the times of a new event. */
    fun take(input: Input): List<Effect> {
        if (input is Input.UserRetry) forgetTimes()
        val before = machine.event
        val (after, effects) = machine.take(made.elapsedNow().inWholeMilliseconds, input)
        machine = after
        after.event?.takeIf { it !== before }?.let(::readTimes)
        return effects
    }

    /**
     * Whether a countdown has run out without any news. That may mean that the connection is dead. It
     * is true once for each countdown.
     */
    fun checks(): Boolean {
        if (checkAt?.hasPassedNow() != true) return false
        checkAt = null
        isChecking = true
        return true
    }

    /**
     * How long until the view changes with time alone; null for never. A scheduled subscribe may come
     * [late] milliseconds later.
     */
    fun wakesIn(late: Long = 0): Duration? {
        val tick = machine.nextTick(late)?.let { it.milliseconds - made.elapsedNow() }
        return listOfNotNull(tick, checkAt?.let { -it.elapsedNow() }).minOrNull()
    }

    /** How long until the scheduled subscribe; null for none. */
    fun pause(): Duration? = machine.state.resubscribeAt?.let { (it.milliseconds - made.elapsedNow()).coerceAtLeast(Duration.ZERO) }

    fun status(problem: Problem?): Status {
        val state = machine.state
        val isWaiting = state.phase == Phase.LOADING || state.phase == Phase.RETRYING
        return Status(
            state = if (isChecking && isWaiting) state.copy(messageKey = TextKeys.CHECKING) else state,
            event = machine.event,
            // A refused stream: whatever it announced, nobody waits for it here.
            nextTry = nextTry.takeIf { state.phase != Phase.ERROR },
            retryFrom = retryFrom,
            problem = problem,
        )
    }

    private fun forgetTimes() {
        nextTry = null
        retryFrom = null
        checkAt = null
        isChecking = false
    }

    /** Turns an event's times into times of the own clock, by what the server said was left. */
    private fun readTimes(event: StatusEvent) {
        forgetTimes()
        val now = clock.markNow()
        fun left(at: Instant?): Duration? {
            val sent = event.serverTime ?: return null
            return at?.let { (it - sent).coerceAtLeast(Duration.ZERO) }
        }
        nextTry = when (event) {
            is StatusEvent.Retrying -> event.retryIn ?: left(event.nextRetryAt)
            is StatusEvent.Queued -> left(event.notBefore)
            else -> null
        }?.let { now + it }
        checkAt = nextTry?.plus(CHECK_AFTER)
        retryFrom = (event as? StatusEvent.Failed)?.run { left(retryAvailableAt) }?.takeIf { it > Duration.ZERO }?.let { now + it }
    }
}
