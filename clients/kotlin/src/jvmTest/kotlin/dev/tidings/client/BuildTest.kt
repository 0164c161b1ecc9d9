package dev.tidings.client

import java.io.File
import kotlin.test.Test
import kotlin.test.assertContains
import kotlin.test.assertTrue

class BuildTest {
    /** The build that users take is not executed here; at least it takes the versions that were tested. */
    @Test
    fun bothBuildsTakeTheSameVersions() {
        val gradle = File("build.gradle.kts").readText()
        val maven = Regex("<([a-z]+)\\.version>(.+)</").findAll(File("pom.xml").readText()).associate { it.groupValues[1] to it.groupValues[2] }
        assertContains(gradle, """kotlin("multiplatform") version "${maven["kotlin"]}"""")
        for (library in listOf("coroutines", "serialization", "ktor", "junit")) {
            assertContains(gradle, """val $library = "${maven[library]}"""")
        }
    }

    /** The compiler for JavaScript says the same with more words, and later. */
    @Test
    fun commonSourcesNameNothingOfTheJvm() {
        val files = File("src/commonMain/kotlin").walk().filter { it.isFile }.toList()
        assertTrue(files.size > 10, "only ${files.size} files found")
        for (file in files) {
            val lines = file.readLines().filter { Regex("\\b(java|javax|android)\\.").containsMatchIn(it) }
            assertTrue(lines.isEmpty(), "$file: $lines")
        }
    }
}
