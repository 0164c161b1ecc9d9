package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidings/tidings/jobs/retry"
)

// What documents say about settings is made from the settings, and a link must
// lead somewhere.

// settingsTable writes the settings of these groups, or of all, as documents
// show them.
func settingsTable(t *testing.T, groups ...string) string {
	t.Helper()
	parser, err := newParser(&commandLine{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, command := range parser.Model.Children {
		if command.Name != "serve" {
			continue
		}
		group := ""
		for _, f := range command.Flags {
			if f.Group == nil || len(groups) > 0 && !slices.Contains(groups, f.Group.Title) {
				continue
			}
			if f.Group.Title != group {
				group = f.Group.Title
				b.WriteString("| **" + group + "** | | | |\n")
			}
			names := make([]string, len(f.Tag.Envs))
			for i, env := range f.Tag.Envs {
				names[i] = "`" + env + "`"
			}
			value, may := "", bounds(f.Value)
			if f.Default != "" {
				value = "`" + f.Default + "`"
			}
			if f.Enum != "" {
				may = strings.ReplaceAll(f.Enum, ",", ", ")
			}
			b.WriteString("| " + strings.Join(names, ", ") + " | " + value + " | " + may + " | " + f.Help + " |\n")
		}
	}
	return "| name | default | range | what it is |\n| --- | --- | --- | --- |\n" + b.String()
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDocumentedSettingsAreTheRealOnes(t *testing.T) {
	for name, groups := range map[string][]string{
		"docs/operations.md": nil,
		"README.md":          {"Retries in the call", "Retries by the queue"},
	} {
		if want := settingsTable(t, groups...); !strings.Contains(document(t, name), want) {
			t.Errorf("%s should contain this table:\n%s", name, want)
		}
	}
	for _, secret := range secretNames() {
		if !strings.Contains(document(t, "docs/operations.md"), "`"+secret+"`") {
			t.Errorf("docs/operations.md does not name %s", secret)
		}
	}
}

func TestReadmeShowsWhatDevPrints(t *testing.T) {
	var b strings.Builder
	greet(&b, "http://127.0.0.1:8080", "http://127.0.0.1:8081", true)
	readme := document(t, "README.md")
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSpace(line); strings.Contains(line, "curl") && !strings.Contains(readme, strings.TrimSuffix(line, " \\")) {
			t.Errorf("README.md does not have the line\n%s", line)
		}
	}
	for target := range strings.FieldsSeq("run test test-slow test-go race bench lint fuzz-short") {
		if !regexp.MustCompile(`(?m)^` + target + `:.*## `).MatchString(document(t, "Makefile")) {
			t.Errorf("the Makefile has no documented target %s", target)
		}
	}
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
	eachFile(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, m[1])
			}
		}
	})
}

// TestTablesInDocumentsAreWhole: rows without a heading are shown as lines of text.
func TestTablesInDocumentsAreWhole(t *testing.T) {
	ruler, tables := regexp.MustCompile(`^\|[ :|-]+\|$`), 0
	eachFile(t, func(name string, text []byte) {
		if filepath.Ext(name) != ".md" {
			return
		}
		code, lines := false, strings.Split(string(text), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if code || !strings.HasPrefix(line, "|") || i > 0 && strings.HasPrefix(lines[i-1], "|") {
				continue
			}
			tables++
			if !ruler.MatchString(lines[i+1]) {
				t.Errorf("%s:%d: a table begins with %s", name, i+1, line)
			}
		}
	})
	if tables < 10 {
		t.Errorf("%d tables were found", tables)
	}
}

// TestThreeRetriesAreFourAttempts: who writes of three retries says in the
// same breath that these are four attempts.
func TestThreeRetriesAreFourAttempts(t *testing.T) {
	retries, attempts := regexp.MustCompile(`(?i)\b(three|3) (queue )?retries\b`), regexp.MustCompile(`(?i)\b(four|4) attempts\b`)
	said := 0
	eachFile(t, func(name string, text []byte) {
		switch filepath.Ext(name) {
		case ".md", ".yaml", ".toml":
		default:
			return
		}
		for line := range strings.Lines(string(text)) {
			if retries.MatchString(line) {
				said++
				if !attempts.MatchString(line) {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	})
	if said == 0 {
		t.Error("docs/retries.md does not say what three retries are")
	}
	if s := retry.Defaults(); s.Attempts != 4 || s.Plan.String() != "30s,1m,2m" {
		t.Errorf("%d attempts with waits of %s", s.Attempts, s.Plan)
	}
}

// TestNobodyPromisesExactlyOnce: where the words stand, there or in the
// heading above them is that it is not promised.
func TestNobodyPromisesExactlyOnce(t *testing.T) {
	words := regexp.MustCompile(`(?i)exactly[- ]once`)
	said := 0
	eachFile(t, func(name string, text []byte) {
		if filepath.Ext(name) != ".md" {
			return
		}
		heading := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") {
				heading = line
			}
			if words.MatchString(line) {
				said++
				if !strings.Contains(line+heading, "not promised") {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
	})
	if said == 0 {
		t.Error("no document says that exactly-once execution is not promised")
	}
}

// TestTheDocumentsSay what whoever runs it has to know
// before: whose the retries are, what is stored by whose clock, what is kept apart,
// and the price.
func TestTheDocumentsSay(t *testing.T) {
	text := strings.Join(strings.Fields(document(t, "docs/retries.md")), " ")
	for id, said := range map[string][]string{
		"S4-72": {"identity of the operation", "There is no fan-out", "Each dependency has one owner of its retries"},
		"S4-73": {"stored before the first call, in Redis time", "inside a process the rest of the time is monotonic", "A worker restart resets none of them"},
		"S4-74": {"| safe read |", "| idempotent write |", "| unclear effect |", "| incomplete stream |"},
		"S4-78": {"Strict budgets let work fail or wait that an endless loop might have finished", "costs two round trips to Redis a call", "used up unevenly"},
	} {
		for _, words := range said {
			if !strings.Contains(text, words) {
				t.Errorf("%s: docs/retries.md does not say %q", id, words)
			}
		}
	}
}

// What security.md promises is shown by tests that are there.
func TestSecurityNamesTestsThatAreThere(t *testing.T) {
	if n := testsNamed(t, "docs/security.md"); n < 30 {
		t.Errorf("security.md names only %d tests", n)
	}
}

// testsNamed is how many tests a document names. Each must be there.
func testsNamed(t *testing.T, name string) int {
	t.Helper()
	there := map[string]bool{}
	eachFile(t, func(name string, text []byte) {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
				there[string(m[1])] = true
			}
		}
	})
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllStringSubmatch(document(t, name), -1)
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("%s names %s, which is no test", name, m[1])
		}
	}
	return len(named)
}

// Each statement has something that shows it, and each id that is cited is a
// statement's.
func TestEachRequirementIsShown(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| (S\d-\d+) \| (.+) \| (.*) \|$`).FindAllStringSubmatch(document(t, "docs/requirements.md"), -1)
	stated := map[string]bool{}
	for _, row := range rows {
		if stated[row[1]] {
			t.Errorf("%s stands there twice", row[1])
		}
		stated[row[1]] = true
		if !strings.Contains(row[3], "`Test") && !strings.Contains(row[3], "`Fuzz") && !strings.Contains(row[3], "](") {
			t.Errorf("nothing shows %s: %s", row[1], row[2])
		}
	}
	if len(rows) != 235 || testsNamed(t, "docs/requirements.md") < 200 {
		t.Errorf("%d statements, want the 235 that were asked for", len(rows))
	}
	cited := regexp.MustCompile(`\bS\d-\d\d\b`)
	eachFile(t, func(name string, text []byte) {
		if strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".md") {
			for _, id := range cited.FindAllString(string(text), -1) {
				if made := strings.HasSuffix(id, "-00") || strings.HasSuffix(id, "-99"); !stated[id] && !made {
					t.Errorf("%s cites %s, which is no statement", name, id)
				}
			}
		}
	})
}
