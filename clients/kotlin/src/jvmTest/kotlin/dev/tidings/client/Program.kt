package dev.tidings.client

import java.io.File
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import kotlin.test.assertEquals
import kotlin.test.fail

/** A program of this repository that a test has started; [close] ends it, and so does the end of the test run. */
internal class Program private constructor(private val process: Process) : AutoCloseable {
    private val seen = mutableListOf<String>()
    private val lines = process.inputStream.bufferedReader()

    /** What follows [prefix] in the first line that begins with it. */
    fun announced(prefix: String): String = synchronized(seen) {
        val reading = CompletableFuture.supplyAsync {
            seen.firstOrNull { it.startsWith(prefix) }
                ?: generateSequence(lines::readLine).onEach { seen += it }.firstOrNull { it.startsWith(prefix) }
        }
        reading.get(20, TimeUnit.SECONDS)?.removePrefix(prefix) ?: fail("the program ended without a line $prefix; it wrote\n${seen.joinToString("\n")}")
    }

    /** Ends it without a chance to say goodbye. */
    fun kill() {
        process.destroyForcibly().waitFor()
    }

    override fun close() {
        process.outputStream.close() // what the contract server waits for
        process.destroy()
        if (!process.waitFor(10, TimeUnit.SECONDS)) kill()
    }

    /** A program that was built. */
    class Built(private val file: File) {
        /** Starts it with nothing in its environment but [environment]. */
        fun start(vararg arguments: String, environment: Map<String, String> = emptyMap()): Program {
            val builder = ProcessBuilder(listOf(file.path) + arguments).redirectError(ProcessBuilder.Redirect.INHERIT)
            builder.environment().clear()
            builder.environment() += environment + ("HOME" to File("target").absolutePath)
            return Program(builder.start()).also { program ->
                Runtime.getRuntime().addShutdownHook(Thread { program.process.destroyForcibly() })
            }
        }
    }

    companion object {
        /** Builds the Go program whose package is in [directory]. */
        fun build(directory: String, name: String): Built {
            val file = File("target/$name").absoluteFile
            file.parentFile.mkdirs()
            val go = ProcessBuilder("go", "build", "-C", directory, "-o", file.path, ".").redirectErrorStream(true).start()
            val output = go.inputStream.bufferedReader().readText()
            assertEquals(0, go.waitFor(), "cannot build $directory: $output")
            return Built(file)
        }
    }
}
