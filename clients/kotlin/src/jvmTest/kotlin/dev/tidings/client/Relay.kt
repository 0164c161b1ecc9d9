package dev.tidings.client

import java.io.IOException
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.util.Collections
import java.util.concurrent.ConcurrentHashMap
import kotlin.concurrent.thread

/** A network in front of a port of this machine that a test can cut and mend. */
internal class Relay(private val target: Int) : AutoCloseable {
    private val loopback = InetAddress.getLoopbackAddress()
    private val listener = ServerSocket(0, 50, loopback)
    private val open: MutableSet<Socket> = ConcurrentHashMap.newKeySet()

    @Volatile
    private var isCut = false

    /** What clients have sent, as text. */
    val requests: MutableList<String> = Collections.synchronizedList(mutableListOf())
    val address = "http://127.0.0.1:${listener.localPort}"

    init {
        thread(isDaemon = true) {
            while (!listener.isClosed) {
                try {
                    join(listener.accept())
                } catch (_: IOException) {
                    continue
                }
            }
        }
    }

    /** Breaks what is open, and all that comes. */
    fun cut() {
        isCut = true
        open.forEach { it.close() }
    }

    fun restore() {
        isCut = false
    }

    override fun close() {
        listener.close()
        cut()
    }

    private fun join(client: Socket) {
        if (isCut) return client.close()
        val server = Socket(loopback, target)
        open += listOf(client, server)
        if (isCut) cut() // in the moment between
        pump(client, server) { requests += it }
        pump(server, client) {}
    }

    private fun pump(from: Socket, to: Socket, see: (String) -> Unit) = thread(isDaemon = true) {
        val bytes = ByteArray(8192)
        try {
            while (true) {
                val count = from.getInputStream().read(bytes)
                if (count < 0) break
                see(String(bytes, 0, count))
                to.getOutputStream().write(bytes, 0, count)
            }
        } catch (_: IOException) {
            // Cut, or gone.
        } finally {
            from.close()
            to.close()
            open -= setOf(from, to)
        }
    }
}
