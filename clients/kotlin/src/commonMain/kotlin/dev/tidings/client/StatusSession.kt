package dev.tidings.client

import kotlin.time.Duration
import kotlin.time.DurationUnit
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
    private val address: String, // of the stream
    private val list: StatusList? = null, // whose one stream this is
) : AutoCloseable {
    private val options = client.options

    // Everything below is touched on this scope alone, which runs one thing at a time.
    private val scope = parent.run {
        CoroutineScope(coroutineContext + SupervisorJob(coroutineContext[Job]) + options.dispatcher.limitedParallelism(1))
    }
    private var view = View(options, sessionId, options.workload)
    private var late = 0L // random extra on the scheduled subscribe, in ms
    private var timer: Job? = null
    private var retry: Job? = null // under way
    private var stream: Stream? = null // what another one says is dropped
    private var isFresh = true // the next subscribe goes without a position
    private var problem: Problem? = null

    private val newest = MutableStateFlow(view.status(null))

    init {
        scope.launch {
            if (list == null) options.trace(newest.value)
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
    public fun foreground(): Job = scope.launch { askAnew() }

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

    /** [TidingsClient.attempts] for this session. */
    public suspend fun attempts(): Answer<Ledger> = client.attempts(sessionId)

    /** [TidingsClient.cancel] for this session. */
    public suspend fun cancel(): Answer<Unit> = client.cancel(sessionId)

    /** Drops the stream. [statuses] keeps its last value. The scope it was opened in waits until nothing runs any more. */
    override fun close() {
        scope.cancel()
    }

    /** Makes a new machine: at the beginning, and for each submission. */
    private fun start() {
        retry?.cancel()
        view = View(options, sessionId, options.workload)
        late = 0
        isFresh = true
        problem = null
        carryOut(listOf(Effect.SUBSCRIBE))
        publish()
    }

    private fun apply(input: Input) {
        val before = view.machine.state.resubscribeAt
        val effects = view.take(list?.take(input) ?: input)
        if (view.machine.state.resubscribeAt != before) {
            late = 0
            // Clients that lost the server in one moment must not come back in one.
            if (input is Input.Disconnect) view.pause()?.let { late = options.random.nextLong(it.inWholeMilliseconds / 4 + 1) }
        }
        carryOut(effects)
        publish()
    }

    private fun askAnew() {
        stream?.let { client.http.connections.renew(it.via) }
        apply(Input.Foreground)
    }

    /** Time has passed. */
    private fun tick() {
        if (list?.checks() ?: view.checks()) askAnew() else apply(Input.Tick)
    }

    private fun carryOut(effects: List<Effect>) {
        for (effect in effects) when (effect) {
            Effect.SUBSCRIBE -> subscribe()
            Effect.CLOSE -> stream?.close()
            Effect.POST_RETRY -> Unit // askForRetry does it, which waits for the answer
        }
        timer?.cancel()
        timer = listOfNotNull(view.wakesIn(late), list?.wakesIn()).minOrNull()?.let { wait ->
            scope.launch {
                delay(wait)
                tick()
            }
        }
    }

    private fun subscribe() {
        stream?.close()
        val seed = if (isFresh) "" else stream?.lastEventId.orEmpty()
        val cursor = if (isFresh) "" else view.machine.state.lastEventId
        isFresh = false
        stream = Stream(client.http, address, cursor, seed, options.watchdog, options.timeSource, options.log) { input, why ->
            if (this === stream && scope.isActive) hear(input, why)
        }.also { it.start(scope) }
    }

    private fun hear(input: Input, why: Problem?) {
        if (input is Input.Open) {
            problem = null
            view.isChecking = false
        }
        if (input is Input.Disconnect) {
            if (isRefusal(input.status)) problem = why
            // As a retry line would: the server says how far apart connections shall be.
            else why?.retryAfter?.takeIf { it > Duration.ZERO }?.let { apply(Input.RetryHint(it.toInt(DurationUnit.MILLISECONDS))) }
        }
        apply(input)
    }

    private suspend fun askForRetry(): Answer<Unit> {
        problem = null
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
        view.retryFrom = problem?.retryAfter?.let { options.timeSource.markNow() + it }
        apply(Input.RetryFailed)
        return answer
    }

    private fun publish() {
        val status = view.status(problem)
        if (list != null) return list.publish(status)
        if (status == newest.value) return
        newest.value = status
        options.trace(status)
    }
}
