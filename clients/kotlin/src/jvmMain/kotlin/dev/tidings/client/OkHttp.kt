package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.engine.okhttp.OkHttp
import java.util.concurrent.TimeUnit.SECONDS
import okhttp3.ConnectionPool
import okhttp3.OkHttpClient

/**
 * Makes HTTP clients on OkHttp, for the constructor of [TidingsClient]: on Android, and wherever else
 * HTTP/2 is spoken on the JVM. Each has connections of its own, and pings those of HTTP/2 every 12 s; one that has
 * not answered by the next ping is dead. [configure] sets OkHttp up further. The app adds `io.ktor:ktor-client-okhttp`.
 */
public fun okHttp(configure: OkHttpClient.Builder.() -> Unit = {}): () -> HttpClient = {
    HttpClient(OkHttp) {
        engine {
            config {
                connectionPool(ConnectionPool())
                pingInterval(12, SECONDS) // a dead one is found after 24 s
                configure()
            }
        }
    }
}
