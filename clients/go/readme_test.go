package tidings_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the README and the package comment show can be copied: each piece compiles
// as it stands, in a function that returns an error, in a module of its own.
func TestWhatIsPrintedCompiles(t *testing.T) {
	var pieces []string
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1) {
		pieces = append(pieces, block[1])
	}
	comment := regexp.MustCompile(`(?m)^//\t(.*\n)`).FindAllStringSubmatch(read(t, "doc.go"), -1)
	var shown strings.Builder
	for _, line := range comment {
		shown.WriteString(line[1])
	}
	if pieces = append(pieces, shown.String()); len(pieces) < 3 || len(comment) < 3 {
		t.Fatalf("%d pieces of code, %d lines in the package comment", len(pieces), len(comment))
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "go.mod", fmt.Sprintf(`module app.example
go 1.23
require github.com/tidings/tidings/clients/go v0.0.0
replace github.com/tidings/tidings/clients/go => %q
`, here))
	for i, piece := range pieces {
		write(t, dir, fmt.Sprintf("piece%d.go", i+1), `package app
import (
	"context"
	"fmt"
	tidings "github.com/tidings/tidings/clients/go"
)
var _ = fmt.Println
func _(ctx context.Context, client *tidings.Client, transcript string, draw func(tidings.Status)) error {
`+piece+`
	return nil
}
`)
	}
	build := exec.Command("go", "build", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
