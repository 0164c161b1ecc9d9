package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// appKeys are the texts an app shows by itself, and so must have without a
// server.
func appKeys() []string {
	return []string{
		"ai_service_busy_retrying",
		"ai_workload_classification_error",
		"ai_workload_guidance_error",
		"ai_workload_retry_button",
		"ai_workload_summary_error",
		"session_checking_connection",
		"session_classification_compiling",
		"session_classification_taking_longer",
		"session_guidance_compiling",
		"session_guidance_taking_longer",
		"session_see_later",
		"session_summary_compiling",
		"session_summary_taking_longer",
	}
}

// builtInTexts reads the app's texts from the server's language files: language,
// key, text. A key that a language lacks is an error.
func builtInTexts(dir string) (map[string]map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "active.*.toml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no active.*.toml in %s", dir)
	}
	all := make(map[string]map[string]string)
	for _, file := range files {
		texts, err := readTexts(file)
		if err != nil {
			return nil, err
		}
		lang := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "active."), ".toml")
		all[lang] = make(map[string]string)
		for _, key := range appKeys() {
			if texts[key] == "" {
				return nil, fmt.Errorf("%s has no plain text for %s", file, key)
			}
			all[lang][key] = texts[key]
		}
	}
	return all, nil
}

// readTexts reads the lines `key = "text"` of a TOML file. Plural tables, which no
// app key has, are passed over.
func readTexts(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	texts := make(map[string]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), " = ")
		if !ok || !strings.HasPrefix(value, `"`) {
			continue
		}
		text, err := strconv.Unquote(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, key, err)
		}
		texts[key] = text
	}
	return texts, lines.Err()
}

// writeTexts writes the clients' built-in texts: JSON for Go, source for the web and
// for Kotlin.
func writeTexts(locales, clients string) error {
	all, err := builtInTexts(locales)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	module := "// Made by the contract server's command texts from the server's language files.\n\n" +
		"/** The texts an app cannot do without, by language and key. */\n" +
		"export const builtInTexts: Readonly<Record<string, Readonly<Record<string, string>>>> = " + string(raw) + ";\n"
	for file, content := range map[string]string{
		"go/fallback.json":          string(raw) + "\n",
		"web/src/built-in-texts.ts": module,
		kotlinTexts:                 kotlinSource(all),
	} {
		if err := os.WriteFile(filepath.Join(clients, filepath.FromSlash(file)), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const kotlinTexts = "kotlin/src/commonMain/kotlin/dev/tidings/client/BuiltInTexts.kt"

// kotlinSource is a Kotlin file with the texts as a map.
func kotlinSource(all map[string]map[string]string) string {
	var b strings.Builder
	b.WriteString("package dev.tidings.client\n\n" +
		"// Made by the contract server's command texts from the server's language files.\n\n" +
		"/** The texts an app cannot do without, by language and key. */\n" +
		"internal val builtInTexts: Map<String, Map<String, String>> = mapOf(\n")
	// Go's escapes are Kotlin's, as far as texts have any; only the dollar begins a template there.
	literal := func(text string) string { return strings.ReplaceAll(strconv.Quote(text), "$", `\$`) }
	for _, lang := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "    %s to mapOf(\n", literal(lang))
		for _, key := range appKeys() {
			fmt.Fprintf(&b, "        %s to %s,\n", literal(key), literal(all[lang][key]))
		}
		b.WriteString("    ),\n")
	}
	b.WriteString(")\n")
	return b.String()
}
