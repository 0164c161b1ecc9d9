package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// tryDescription sends requests that schemathesis makes from docs/openapi.yaml, up
// to examples valid and invalid ones an operation. It fails for a 5xx, an answer
// that is not described, a valid request that is refused and an invalid one that is taken.
func tryDescription(t *testing.T, examples int) {
	given, err := filepath.Abs("testdata/openapi")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir // where schemathesis keeps what it finds
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+given)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	run("python3", "-m", "venv", "venv")
	run("venv/bin/pip", "install", "--quiet", "--requirement", filepath.Join(given, "requirements.txt"))

	// Guidance is left to outside workers, so that both kinds of worker are there.
	p := serve(t, short(map[string]string{"TIDINGS_OUTSIDE": "guidance"}), "dev")
	run("venv/bin/schemathesis", "--config-file", filepath.Join(given, "schemathesis.toml"),
		"run", filepath.Join(given, "../../../../docs/openapi.yaml"), "--url", p.api,
		"--seed", "1", "--max-examples", strconv.Itoa(examples))
}

func TestTheDescriptionHolds(t *testing.T) {
	t.Parallel()
	tryDescription(t, 10)
}
