package dev.tidings.client

import io.ktor.http.encodeURLParameter
import kotlin.time.Duration
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow

/**
 * Many sessions on one stream: for pages that list them, and for clients that must not hold a
 * connection for each. It lives until [close] or the end of the scope it was opened in; jobs that end
 * do not end it. All of it may be used from any thread.
 */
public class StatusList internal constructor(client: TidingsClient, sessions: List<String>, parent: CoroutineScope) : AutoCloseable {
    private val options = client.options
    private val items = sessions.map { name ->
        Item(name, name.substringBefore('/'), name.substringAfter('/', options.workload))
    }
    private val newest = MutableStateFlow(items.associate { it.name to it.view.status(null) })

    /** The newest status of each session, by the names they were given with. A slow collector misses those in between. */
    public val statuses: StateFlow<Map<String, Status>> = newest.asStateFlow()

    // The stream's own machine takes each event as one without a meaning.
    private val stream = StatusSession(
        client,
        "",
        parent,
        "/api/v1/status/stream?" + items.joinToString("&") { "session=" + "${it.sessionId}/${it.workload}".encodeURLParameter() },
        this,
    )

    /** See [StatusSession.foreground]. */
    public fun foreground(): Job = stream.foreground()

    /** Drops the stream. [statuses] keeps its last value. */
    override fun close(): Unit = stream.close()

    /** Gives each session what concerns it, and returns what concerns the connection. */
    internal fun take(input: Input): Input {
        when (input) {
            is Input.Event -> {
                val data = readObject(input.data)
                val event = StatusEvent.of(input.event, data)
                if (event != null) items.find { it.sessionId == event.sessionId && it.workload == event.workload }?.take(input, event)
                return Input.Event("message", "", input.id)
            }
            is Input.Disconnect -> if (isRefusal(input.status)) items.forEach { it.view.take(input) }
            Input.Open -> items.forEach { it.view.isChecking = false }
            Input.Tick -> items.forEach { it.view.take(input) }
            else -> Unit
        }
        return input
    }

    /** Whether a countdown of any session has run out without news. */
    internal fun checks(): Boolean = items.count { it.view.checks() } > 0

    /** How long until any session changes with time alone. */
    internal fun wakesIn(): Duration? = items.mapNotNull { it.view.wakesIn() }.minOrNull()

    /** Makes the newest statuses known. The connection is one for all. */
    internal fun publish(connection: Status) {
        newest.value = items.associate { item ->
            val own = item.view.status(connection.problem)
            val shared = connection.state
            item.name to own.copy(
                state = own.state.copy(connection = shared.connection, resubscribeAt = shared.resubscribeAt, lastEventId = shared.lastEventId),
            )
        }
    }

    private inner class Item(val name: String, val sessionId: String, val workload: String) {
        var view = View(options, sessionId, workload)
        private var lastSeq = -1L
        private var jobId: String? = null

        /**
         * Takes an event. After a return some come again. A new job has a machine of its own: the one
         * before may have come to its end.
         */
        fun take(input: Input, event: StatusEvent) {
            if (event.isReset) lastSeq = -1
            val seq = event.seq ?: -1
            if (seq in 0..lastSeq) return
            if (event.jobId != jobId) view = View(options, sessionId, workload)
            jobId = event.jobId
            lastSeq = maxOf(seq, lastSeq)
            view.take(input)
        }
    }
}
