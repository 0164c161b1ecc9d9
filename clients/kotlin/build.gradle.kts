// What users build and publish with: all platforms from one build. This repository's tests do not
// execute it: pom.xml builds the same sources, and a test holds the versions of both together.

import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    kotlin("multiplatform") version "2.3.21"
    `maven-publish`
    signing
}

group = "dev.tidings"
version = "0.1.0"

val coroutines = "1.11.0"
val serialization = "1.11.0"
val ktor = "3.5.2"
val junit = "5.13.4"

kotlin {
    explicitApi()
    compilerOptions {
        allWarningsAsErrors = true
    }

    jvm { // also what an Android app gets
        compilerOptions {
            jvmTarget = JvmTarget.JVM_11
            freeCompilerArgs.add("-Xjdk-release=11")
        }
        testRuns["test"].executionTask.configure {
            useJUnitPlatform()
        }
    }
    js {
        browser {
            testTask { enabled = false } // the vectors are files
        }
        nodejs {
            testTask { environment("TIDINGS_VECTORS", System.getenv("TIDINGS_VECTORS") ?: file("../vectors").path) }
        }
    }
    iosArm64()
    iosSimulatorArm64()
    iosX64()
    macosArm64()

    sourceSets {
        commonMain.dependencies {
            api("io.ktor:ktor-client-core:$ktor")
            api("org.jetbrains.kotlinx:kotlinx-coroutines-core:$coroutines")
            api("org.jetbrains.kotlinx:kotlinx-serialization-json:$serialization")
        }
        jvmMain.dependencies {
            compileOnly("io.ktor:ktor-client-okhttp:$ktor") // for okHttp()
        }
        commonTest.dependencies {
            implementation(kotlin("test"))
            implementation("io.ktor:ktor-client-mock:$ktor")
            implementation("org.jetbrains.kotlinx:kotlinx-coroutines-test:$coroutines")
        }
        jvmTest.dependencies {
            implementation("org.junit.jupiter:junit-jupiter:$junit")
            implementation("io.ktor:ktor-client-cio:$ktor")
            implementation("io.ktor:ktor-client-java:$ktor")
            implementation("io.ktor:ktor-client-okhttp:$ktor")
        }
    }
}

signing {
    isRequired = providers.gradleProperty("signing.keyId").isPresent
    sign(publishing.publications)
}
