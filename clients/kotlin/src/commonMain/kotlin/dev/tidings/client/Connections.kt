package dev.tidings.client

import io.ktor.client.HttpClient
import kotlinx.coroutines.flow.MutableStateFlow

/**
 * The HTTP client, and what replaces it when its connections cannot be trusted. Over HTTP/2 all
 * requests share one connection: without a replacement a new stream would begin on the very connection
 * the last one has died on.
 */
internal class Connections(first: HttpClient, private val another: (() -> HttpClient)?) {
    private val current = MutableStateFlow(first)

    val newest: HttpClient get() = current.value

    /**
     * Makes later requests go out on new connections, unless that has happened since [used] was the
     * newest client. What still runs on the old ones goes on.
     */
    fun renew(used: HttpClient) {
        if (another == null || used !== newest) return
        val fresh = another()
        // close waits for the requests that run
        if (current.compareAndSet(used, fresh)) used.close() else fresh.close()
    }
}
