package dev.tidings.client

import kotlin.time.ComparableTimeMark
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.DurationUnit
import kotlin.time.Instant
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.cancel
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.isActive
import kotlinx.coroutines.job
import kotlinx.coroutines.launch

/**
 * A session's status and what its user can do about it. It owns the connection, so a view may come and
 * go. It lives until [close] or the end of the scope it was opened in; states that end a stream do not
 * end it. All of it may be used from any thread.
 *
 * What it does runs on a dispatcher of its own, one step at a time, never on the thread of the view.
 */
public class StatusSession internal constructor(
    private val client: TidingsClient,
    /** The conversation in the app. */
    public val sessionId: String,
    parent: CoroutineScope,
) : AutoCloseable {
    private val options = client.options
    private val clock = options.timeSource

    // Everything below is touched on this scope alone, which runs one thing at a time.
    private val scope = parent.run {
        CoroutineScope(coroutineContext + SupervisorJob(coroutineContext[Job]) + options.dispatcher.limitedParallelism(1))
    }
    private var machine = Machine(sessionId, options.workload)
    private var made = clock.markNow() // time 0 of the machine
    private var late = 0L // random extra on the scheduled subscribe, in ms
    private var timer: Job? = null
    private var retry: Job? = null // under way
    private var stream: Stream? = null // what another one says is dropped
    private var isFresh = true // the next subscribe goes without a position
    private var nextTry: ComparableTimeMark? = null
    private var retryFrom: ComparableTimeMark? = null
    private var problem: Problem? = null

    private val newest = MutableStateFlow(Status(machine.state))

    init {
        scope.launch {
            options.trace(newest.value)
            start()
        }
    }

    /** The newest status. A slow collector misses those in between. */
    public val statuses: StateFlow<Status> = newest.asStateFlow()

    /**
     * Asks the server for another try, as the user's tap on the retry button, and waits until that is
     * accepted. If it is refused, the answer and [Status.problem] say why, and how long to wait. To
     * cancel the caller ends the waiting, not the retry.
     */
    public suspend fun retry(): Answer<Unit> {
        val answer = CompletableDeferred<Answer<Unit>>()
        scope.launch {
            if (!newest.value.canRetry) return@launch
            retry = coroutineContext.job
            answer.complete(askForRetry())
        }.invokeOnCompletion { answer.complete(Answer.NotOffered) } // unless it was answered
        return answer.await()
    }

    /** The user's "I'll see this later": the view goes, the stream and [Status.outcome] go on. The job ends when it is done. */
    public fun dismiss(): Job = scope.launch { apply(Input.UserDismiss) }

    /**
     * The app is visible again or the network is back: whatever stream there is cannot be trusted, and
     * a new one is opened at once. The job ends when it is done.
     */
    public fun foreground(): Job = scope.launch { apply(Input.Foreground) }

    /**
     * [TidingsClient.submit] for this session. Once accepted, the session follows the new job from its
     * start, whatever came of the one before.
     */
    public suspend fun submit(submission: Submission): Answer<SubmittedJob> {
        val answer = client.submit(sessionId, submission)
        if (answer is Answer.Ok) scope.launch { start() }.join()
        return answer
    }

    /** [TidingsClient.document] for this session. */
    public suspend fun document(): Answer<Document> = client.document(sessionId)

    /** [TidingsClient.cancel] for this session. */
    public suspend fun cancel(): Answer<Unit> = client.cancel(sessionId)

    /** Drops the stream. [statuses] keeps its last value. The scope it was opened in waits until nothing runs any more. */
    override fun close() {
        scope.cancel()
    }

    /** Makes a new machine: at the beginning, and for each submission. */
    private fun start() {
        retry?.cancel()
        machine = Machine(sessionId, options.workload)
        made = clock.markNow()
        late = 0
        isFresh = true
        nextTry = null
        retryFrom = null
        problem = null
        carryOut(listOf(Effect.SUBSCRIBE))
        publish()
    }

    private fun apply(input: Input) {
        val at = made.elapsedNow().inWholeMilliseconds
        val before = machine
        val (after, effects) = before.take(at, input)
        machine = after
        val due = after.state.resubscribeAt
        if (due != before.state.resubscribeAt) {
            // Clients that lost the server in one moment must not come back in one.
            late = if (input is Input.Disconnect && due != null) options.random.nextLong((due - at) / 4 + 1) else 0
        }
        after.event?.takeIf { it !== before.event }?.let(::readTimes)
        carryOut(effects)
        publish()
    }

    private fun carryOut(effects: List<Effect>) {
        for (effect in effects) when (effect) {
            Effect.SUBSCRIBE -> subscribe()
            Effect.CLOSE -> stream?.close()
            Effect.POST_RETRY -> Unit // askForRetry does it, which waits for the answer
        }
        timer?.cancel()
        timer = machine.nextTick(late)?.let { next ->
            scope.launch {
                delay((next - made.elapsedNow().inWholeMilliseconds).milliseconds)
                apply(Input.Tick)
            }
        }
    }

    private fun subscribe() {
        stream?.close()
        val seed = if (isFresh) "" else stream?.lastEventId.orEmpty()
        val cursor = if (isFresh) "" else machine.state.lastEventId
        isFresh = false
        stream = Stream(client.http, client.path(sessionId, "/status"), cursor, seed, options.watchdog, clock, options.log) { input, why ->
            if (this === stream && scope.isActive) hear(input, why)
        }.also { it.start(scope) }
    }

    private fun hear(input: Input, why: Problem?) {
        if (input is Input.Open) problem = null
        if (input is Input.Disconnect) {
            if (isRefusal(input.status)) problem = why
            // As a retry line would: the server says how far apart connections shall be.
            else why?.retryAfter?.takeIf { it > Duration.ZERO }?.let { apply(Input.RetryHint(it.toInt(DurationUnit.MILLISECONDS))) }
        }
        apply(input)
    }

    private suspend fun askForRetry(): Answer<Unit> {
        problem = null
        nextTry = null
        retryFrom = null
        apply(Input.UserRetry)
        val answer = client.retry(sessionId)
        // Another device was faster. The position may be that of the very event that completed it,
        // after which a server has nothing to send.
        val isCompleted = answer.problem?.run { status == 409 && code == "already_completed" } == true
        if (answer is Answer.Ok || isCompleted) {
            isFresh = isCompleted
            apply(Input.RetryAccepted)
            return Answer.Ok(Unit)
        }
        options.log("retry not accepted: $answer")
        problem = answer.problem
        retryFrom = problem?.retryAfter?.let { clock.markNow() + it }
        apply(Input.RetryFailed)
        return answer
    }

    /** Turns an event's times into times of the own clock, by what the server said was left. */
    private fun readTimes(event: StatusEvent) {
        val now = clock.markNow()
        fun left(at: Instant?): Duration? {
            val sent = event.serverTime ?: return null
            return at?.let { (it - sent).coerceAtLeast(Duration.ZERO) }
        }
        nextTry = (event as? StatusEvent.Retrying)?.run { retryIn ?: left(nextRetryAt) }?.let { now + it }
        retryFrom = (event as? StatusEvent.Failed)?.run { left(retryAvailableAt) }?.takeIf { it > Duration.ZERO }?.let { now + it }
    }

    private fun publish() {
        val status = Status(
            state = machine.state,
            event = machine.event,
            // A refused stream: whatever it announced, nobody waits for it here.
            nextTry = nextTry.takeIf { machine.state.phase != Phase.ERROR },
            retryFrom = retryFrom,
            problem = problem,
        )
        if (status == newest.value) return
        newest.value = status
        options.trace(status)
    }
}
