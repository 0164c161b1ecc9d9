package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table in the clients' README names tests and cases that exist.
func TestTheTableNamesRealTests(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "| behaviour |")
	table, _, _ = strings.Cut(table, "\n\n")
	cases := builtInCases(t)
	goTests := contents(t, "../go/*_test.go")

	inCode := regexp.MustCompile("`([^`]+)`")
	inFile := regexp.MustCompile(`([a-z-]+) › ([^,|]+)`)
	rows := strings.Split(table, "\n")[2:]
	if len(rows) < 30 {
		t.Fatalf("only %d rows found", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(row, "|")
		if len(cells) != 6 {
			t.Errorf("not four cells: %s", row)
			continue
		}
		for _, name := range inCode.FindAllStringSubmatch(cells[2]+cells[3]+cells[4], -1) {
			prefix := strings.TrimRight(name[1], ".*")
			if strings.HasPrefix(prefix, "Test") || strings.HasPrefix(prefix, "Fuzz") {
				if !strings.Contains(goTests, "func "+prefix) {
					t.Errorf("no Go test begins with %s", prefix)
				}
			} else if !anyName(cases, prefix) {
				t.Errorf("no case begins with %s", prefix)
			}
		}
		for _, name := range inFile.FindAllStringSubmatch(cells[3], -1) {
			tests := contents(t, "../web/test/"+name[1]+".test.ts")
			if phrase := strings.TrimSpace(name[2]); phrase != "all" && !strings.Contains(tests, phrase) {
				t.Errorf("web/test/%s.test.ts has no test with %q in its name", name[1], phrase)
			}
		}
		for _, name := range inFile.FindAllStringSubmatch(cells[4], -1) {
			class := strings.ToUpper(name[1][:1]) + name[1][1:] + "Test"
			tests := contents(t, "../kotlin/src/*Test/kotlin/dev/tidings/client/"+class+".kt")
			if phrase := strings.TrimSpace(name[2]); phrase != "all" && !regexp.MustCompile("fun `?[A-Za-z0-9_-]*"+regexp.QuoteMeta(phrase)).MatchString(tests) {
				t.Errorf("%s has no test with %q in its name", class, phrase)
			}
		}
	}
}

func anyName(cases map[string]*Case, prefix string) bool {
	for name := range cases {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func contents(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Errorf("no file %s", pattern)
	}
	var all strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}
