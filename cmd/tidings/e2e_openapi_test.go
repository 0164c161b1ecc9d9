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
	python := filepath.Join(t.TempDir(), "venv")
	run := func(dir, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	run(".", "python3", "-m", "venv", python)
	run("testdata/openapi", filepath.Join(python, "bin", "pip"), "install", "--quiet", "--requirement", "requirements.txt")
	description, err := filepath.Abs("../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}

	// Guidance is left to outside workers, so that both kinds of worker are there.
	p := serve(t, short(map[string]string{"TIDINGS_OUTSIDE": "guidance"}), "dev")
	run("testdata/openapi", filepath.Join(python, "bin", "schemathesis"), "run", description, "--url", p.api,
		"--seed", "1", "--max-examples", strconv.Itoa(examples))
}

func TestTheDescriptionHolds(t *testing.T) {
	t.Parallel()
	tryDescription(t, 10)
}
