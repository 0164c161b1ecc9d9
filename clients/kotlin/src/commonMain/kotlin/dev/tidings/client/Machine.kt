package dev.tidings.client

import kotlinx.serialization.json.JsonObject

/** Something that happened: on the stream, to the clock, or by the user. */
public sealed interface Input {
    /** A 200 answer with an event stream has begun. */
    public data object Open : Input

    /** The stream carried an event. Without an [id] the position stays as it is. */
    public data class Event(val event: String, val data: String, val id: String? = null) : Input

    /** The stream carried a valid `retry` line. */
    public data class RetryHint(val millis: Int) : Input

    /** The stream has ended; [status] is the HTTP status of its answer, null if there was none. */
    public data class Disconnect(val status: Int? = null) : Input

    /** Time has passed. */
    public data object Tick : Input

    /** The app is visible again, or the network is back. */
    public data object Foreground : Input

    /** The user's "I'll see this later". */
    public data object UserDismiss : Input

    /** The user's "try again". */
    public data object UserRetry : Input

    /** The server has taken the retry. */
    public data object RetryAccepted : Input

    /** The server has not taken the retry. */
    public data object RetryFailed : Input
}

/** Something the machine wants done. */
public enum class Effect {
    /** Drop the stream, if any, and open a new one after [State.lastEventId]. */
    SUBSCRIBE,

    /** Drop the stream. */
    CLOSE,

    /** Ask the server for another try, and report what it said. */
    POST_RETRY,
}

/** A machine after an input, and what is to be done because of it, in order. */
public data class Step(public val machine: Machine, public val effects: List<Effect>)

/**
 * The state machine of one session's status: an immutable value without clock, timer or I/O. The same
 * inputs always give the same states. Time 0 is when it was made, its first effect is
 * [Effect.SUBSCRIBE]. The rules are those of the vectors' README.
 */
public class Machine private constructor(private val memory: Memory) {

    /** Makes the machine of a session's workload. */
    public constructor(sessionId: String, workload: String = "summary") : this(Memory(sessionId, workload))

    /** The last accepted event with a name of the contract; null before the first. */
    public val event: StatusEvent? get() = memory.event

    /** What to show now. */
    public val state: State = memory.state()

    /**
     * When the machine next wants a tick, in milliseconds since it was made, or null. A scheduled
     * subscribe may come [late] milliseconds later. A late tick, or none, does no harm to what is shown.
     */
    public fun nextTick(late: Long = 0): Long? =
        listOfNotNull(memory.resubscribeAt?.plus(late), memory.deadline.takeIf { memory.isWaiting && !memory.timedOut }).minOrNull()

    /** Takes one input that came [at] milliseconds after the machine was made, by a clock that does not go back. */
    public fun take(at: Long, input: Input): Step {
        val (before, due) = memory.passTime(at)
        val (after, wanted) = before.take(input)
        // Coming to the foreground subscribes once, also when time has just done so.
        return Step(Machine(after), (due + wanted).distinct())
    }
}

private typealias Change = Pair<Memory, List<Effect>>

internal data class Memory(
    val sessionId: String,
    val workload: String,
    val now: Long = 0,
    val deadline: Long = HARD_TIMEOUT,
    val timedOut: Boolean = false,
    val phase: Phase = Phase.LOADING,
    val attempt: Int? = null,
    val connection: Connection = Connection.RECONNECTING,
    val resubscribeAt: Long? = null,
    val lastEventId: String = "",
    val outcome: Outcome = Outcome.PENDING,
    val failures: Int = 0,
    val base: Long = BASE_DELAY,
    val lastSeq: Long? = null,
    val awaitingRetry: Boolean = false,
    val event: StatusEvent? = null,
) {
    val isWaiting: Boolean get() = phase == Phase.LOADING || phase == Phase.RETRYING
    private val isClosed: Boolean get() = connection == Connection.CLOSED

    fun state() = State(
        phase = phase,
        spinner = isWaiting && !timedOut,
        messageKey = when (phase) {
            Phase.LOADING -> if (timedOut) TextKeys.takingLonger(workload) else TextKeys.compiling(workload)
            Phase.RETRYING -> TextKeys.BUSY_RETRYING
            Phase.ERROR -> TextKeys.error(workload)
            Phase.DONE, Phase.DISMISSED -> null
        },
        retryAttempt = attempt.takeIf { phase == Phase.RETRYING },
        canRetry = phase == Phase.ERROR,
        canDismiss = isWaiting || phase == Phase.ERROR,
        connection = connection,
        resubscribeAt = resubscribeAt,
        lastEventId = lastEventId,
        outcome = outcome,
    )

    /** What the time alone has changed, before the input itself is looked at. */
    fun passTime(at: Long): Change {
        val now = maxOf(now, at)
        val later = copy(now = now, timedOut = timedOut || isWaiting && now >= deadline)
        if (resubscribeAt == null || now < resubscribeAt) return later.unchanged()
        return later.copy(resubscribeAt = null, connection = Connection.RECONNECTING) to listOf(Effect.SUBSCRIBE)
    }

    fun take(input: Input): Change = when (input) {
        Input.Tick -> unchanged()
        Input.Open ->
            if (isClosed) unchanged() else copy(connection = Connection.OPEN, resubscribeAt = null).unchanged()
        is Input.RetryHint -> copy(base = input.millis.toLong().coerceIn(MIN_HINT, MAX_DELAY)).unchanged()
        is Input.Disconnect -> disconnect(input.status).unchanged()
        Input.Foreground ->
            if (isClosed) unchanged()
            else copy(connection = Connection.RECONNECTING, resubscribeAt = null, failures = 0) to listOf(Effect.SUBSCRIBE)
        Input.UserDismiss -> if (isWaiting || phase == Phase.ERROR) copy(phase = Phase.DISMISSED).unchanged() else unchanged()
        Input.UserRetry -> if (phase != Phase.ERROR) unchanged() else copy(
            phase = Phase.LOADING,
            outcome = Outcome.PENDING,
            timedOut = false,
            deadline = now + HARD_TIMEOUT,
            attempt = null,
            failures = 0,
            awaitingRetry = true,
        ) to listOf(Effect.POST_RETRY)
        Input.RetryAccepted -> if (!awaitingRetry) unchanged() else copy(
            awaitingRetry = false,
            connection = Connection.RECONNECTING,
            resubscribeAt = null,
        ) to listOf(Effect.SUBSCRIBE)
        Input.RetryFailed ->
            if (!awaitingRetry) unchanged()
            else copy(awaitingRetry = false, outcome = Outcome.FAILED).show(Phase.ERROR).unchanged()
        is Input.Event -> take(input)
    }

    private fun disconnect(status: Int?): Memory = when {
        isClosed -> this
        isRefusal(status) -> copy(connection = Connection.CLOSED, resubscribeAt = null).show(Phase.ERROR)
        // After idle the schedule stands, and this is no failure.
        resubscribeAt != null -> copy(connection = Connection.RECONNECTING)
        else -> copy(
            connection = Connection.RECONNECTING,
            // Beyond 16 failures every delay is the longest.
            resubscribeAt = now + minOf(base shl minOf(failures, 16), MAX_DELAY),
            failures = failures + 1,
        )
    }

    /** The type alone decides what happens, data only refines it: an old app survives a newer server. */
    private fun take(input: Input.Event): Change {
        if (outcome == Outcome.COMPLETED) return unchanged()
        // After an error the stream is on its way out. Only the document that came after all is news.
        if (isClosed && !(outcome == Outcome.FAILED && input.event == "completed")) return unchanged()
        val data = readObject(input.data)
        if ((data.text("session_id") ?: sessionId) != sessionId) return unchanged()
        val newest = if (data.flag("reset") == true) null else lastSeq
        val seq = data.integer("seq")
        if (seq != null && newest != null && seq <= newest) return unchanged()
        return copy(
            lastSeq = seq ?: newest,
            lastEventId = input.id ?: lastEventId,
            failures = 0,
            connection = if (isClosed) connection else Connection.OPEN,
            event = StatusEvent.of(input.event, data) ?: event,
        ).follow(input.event, data)
    }

    private fun follow(event: String, data: JsonObject): Change = when (event) {
        "queued", "processing" -> copy(resubscribeAt = null).show(Phase.LOADING, attempt = null).unchanged()
        "retrying" -> {
            val known = attempt.takeIf { phase == Phase.RETRYING }
            val told = data.integer("attempt", 1L..1000L)?.toInt()
            copy(resubscribeAt = null).show(Phase.RETRYING, told ?: known).unchanged()
        }
        "completed" -> finish(Outcome.COMPLETED, Phase.DONE)
        "error" -> finish(Outcome.FAILED, Phase.ERROR)
        "idle" -> {
            val stays = data.flag("stays_open") == true && !isClosed
            copy(resubscribeAt = if (stays) null else now + IDLE_DELAY).show(Phase.LOADING, attempt = null).unchanged()
        }
        else -> unchanged()
    }

    private fun finish(outcome: Outcome, phase: Phase): Change {
        val finished = copy(resubscribeAt = null, outcome = outcome).show(phase)
        return if (isClosed) finished.unchanged() else finished.copy(connection = Connection.CLOSED) to listOf(Effect.CLOSE)
    }

    /** Changes the phase unless the user has left: a dismissed view stays so. */
    private fun show(phase: Phase, attempt: Int? = this.attempt): Memory =
        if (this.phase == Phase.DISMISSED) this else copy(phase = phase, attempt = attempt)

    private fun unchanged(): Change = this to emptyList()

    private companion object {
        // Milliseconds, as the vectors' README has them.
        const val HARD_TIMEOUT = 30_000L
        const val IDLE_DELAY = 2_000L
        const val BASE_DELAY = 1_000L
        const val MIN_HINT = 500L
        const val MAX_DELAY = 30_000L
    }
}

/** Whether a status means that asking again would be in vain. */
internal fun isRefusal(status: Int?): Boolean = when (status) {
    204 -> true
    null, 408, 425, 429 -> false
    else -> status in 400..499
}
