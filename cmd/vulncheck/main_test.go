package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module that stands on a vulnerable package is found out by govulncheck itself
// over a database that was laid out here.
func TestAVulnerablePackageIsFound(t *testing.T) {
	entries, db := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"GO-2000-0001.json": `{"id":"GO-2000-0001","modified":"2026-01-01T00:00:00Z","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"encoding/csv"}]}}]}`,
		"GO-2000-0002.json": `{"id":"GO-2000-0002","modified":"2026-01-02T00:00:00Z","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"encoding/gob"}]}}]}`,
		"GO-2000-0003.json": `{"id":"GO-2000-0003","modified":"2026-01-03T00:00:00Z","withdrawn":"2026-01-03T00:00:00Z","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"encoding/csv"}]}}]}`,
		"main.go": "package main\n\nimport _ \"encoding/csv\"\n\nfunc main() {}\n",
		"go.mod":  "module example.com/x\n\ngo 1.26.0\n",
	} {
		if err := os.WriteFile(filepath.Join(entries, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := layOut(entries, db); err != nil {
		t.Fatal(err)
	}
	report, err := output([]string{"tool", "govulncheck", "-C", entries, "-db", "file://" + filepath.ToSlash(db), "-scan", "package", "-format", "json", "."})
	if err != nil {
		t.Fatal(err)
	}
	found, err := findings(report)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || !strings.HasPrefix(found["GO-2000-0001"], "stdlib@v1.") {
		t.Errorf("found %v", found)
	}
	if err := judge(found, nil); err == nil || !strings.Contains(err.Error(), "GO-2000-0001") {
		t.Errorf("not listed: %v", err)
	}
	if err := judge(found, map[string]string{"GO-2000-0001": "not called"}); err != nil {
		t.Errorf("listed with a reason: %v", err)
	}
	if err := judge(nil, map[string]string{"GO-2000-0001": "not called"}); err == nil {
		t.Error("a reason for nothing passes")
	}
}

// Where nothing is read, nothing is found: that must not pass.
func TestAnEmptyDatabaseFails(t *testing.T) {
	if err := layOut(t.TempDir(), t.TempDir()); err == nil {
		t.Error("no error")
	}
}
