package main

import (
	"context"
	"errors"
	"go/scanner"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
	"github.com/tidings/tidings/jobs/retry"
)

// S3-28: which model writes is said by one variable. No Go file that is not a
// test names a vendor's model, so there is none to change; the price table is
// data.
func TestNoModelIsNamedInCode(t *testing.T) {
	names := regexp.MustCompile(`(?i)\b(claude-[a-z0-9]|gpt-[0-9o]|gemini-[0-9]|llama-?[0-9]|o[1-9]-(mini|pro))`)
	for _, name := range []string{"claude-haiku-4-5", "gpt-4o", "gpt-5-mini", "gemini-2.5-pro", "llama3.2", "o3-mini"} {
		if !names.MatchString(name) {
			t.Errorf("%s would not be found", name)
		}
	}
	var found []string
	seen := 0
	if got := literals([]byte("package x // claude-a\nvar y = `gpt-4o`")); len(got) != 1 || got[0] != "`gpt-4o`" {
		t.Errorf("literals are %q", got)
	}
	eachFile(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "clients/") {
			return
		}
		seen++
		for _, literal := range literals(text) {
			if m := names.FindString(literal); m != "" {
				found = append(found, name+": "+m)
			}
		}
	})
	if len(found) > 0 || seen < 50 {
		t.Errorf("%d names of models in %d files, want none: %v", len(found), seen, found)
	}
	// The one variable, once.
	config, err := os.ReadFile("config.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(config), `env:"TIDINGS_MODEL"`); n != 1 {
		t.Errorf("TIDINGS_MODEL is read %d times, want once", n)
	}
}

// literals are the texts in a file's code, its comments left out.
func literals(text []byte) (all []string) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	for {
		_, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			return all
		case token.STRING:
			all = append(all, literal)
		}
	}
}

func TestPricesFromAFile(t *testing.T) {
	if p, err := pricesFrom(""); err != nil || p.Version() != model.ListPrices().Version() {
		t.Errorf("without a file: %v", err)
	}
	file := filepath.Join(t.TempDir(), "prices.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"version":"ours","prices":[{"dependency":"openai/mine","input":1,"output":2}]}`)
	n := int64(1_000_000)
	p, err := pricesFrom(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Cost("openai/mine", model.Usage{InputTokens: &n, OutputTokens: &n}); got == nil || *got != 3 || p.Version() != "ours" {
		t.Errorf("cost %v, version %q", got, p.Version())
	}
	write(`{"prices":[{"dependency":"openai/mine","inputs":1}]}`)
	for _, name := range []string{file, file + ".missing"} {
		if _, err := pricesFrom(name); err == nil || !strings.Contains(err.Error(), "TIDINGS_PRICES") {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
}

// The example of docs/providers.md is a file that is taken.
func TestDocumentedPriceFileIsTaken(t *testing.T) {
	_, rest, _ := strings.Cut(document(t, "docs/providers.md"), "```json\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there is no example")
	}
	if _, err := model.ListPrices().With([]byte(example)); err != nil {
		t.Error(err)
	}
}

func TestAdviceIsLogged(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	ask := func(err error) {
		_, got := advised{modeltest.NewScripted(modeltest.Fail(err)), log}.Generate(context.Background(), model.Request{})
		if !errors.As(got, new(*model.Error)) {
			t.Errorf("the error became %v", got)
		}
	}
	ask(&model.Error{Kind: retry.Overloaded, Status: 529})
	if out.Len() > 0 {
		t.Errorf("without advice: %s", out.String())
	}
	ask(&model.Error{Kind: retry.Internal, Status: 400, Type: "response_format_refused", Advice: "set TIDINGS_MODEL_OUTPUT"})
	for _, word := range []string{"level=ERROR", "set TIDINGS_MODEL_OUTPUT", "dependency=scripted", "type=response_format_refused"} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("no %s in %s", word, out.String())
		}
	}
}

// Each command of docs/providers.md is one that the program takes.
func TestDocumentedModelsAreTaken(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([A-Z][^`|]*)make run` \\|$")
	all := row.FindAllStringSubmatch(document(t, "docs/providers.md"), -1)
	if len(all) < 8 {
		t.Fatalf("%d commands found", len(all))
	}
	for _, m := range all {
		env := map[string]string{}
		for pair := range strings.FieldsSeq(m[1]) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = strings.Replace(value, "…", "a-key", 1)
		}
		line, mode, err := read(t, env, "dev")
		if err != nil {
			t.Errorf("%s: %v", m[1], err)
			continue
		}
		if p, err := openModel(line.settings(mode), nil); err != nil || p.Dependency() != env["TIDINGS_MODEL"] {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}
