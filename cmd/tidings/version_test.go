package main

import (
	"strings"
	"testing"
)

func TestTheVersionNamesWhatWasBuilt(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		if _, mode, err := read(t, nil, arg); mode != "version" || err != nil {
			t.Errorf("%s: %s, %v", arg, mode, err)
		}
	}
	var out strings.Builder
	printVersion(&out)
	for _, want := range []string{"tidings ", "commit", "go1.", "github.com/hibiken/asynq v", "github.com/redis/go-redis/v9 v"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
