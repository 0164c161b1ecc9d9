//go:build !nosdk

package provider_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidings/tidings/jobs/model/provider"
	"github.com/tidings/tidings/jobs/retry"
)

// repeated says who repeats a failure.
func repeated(inCall, queued bool) string {
	switch {
	case inCall:
		return "in the call, then by the queue"
	case queued:
		return "by the queue"
	}
	return "no"
}

// ends tells whether a row comes with a status of 200: then none that depends on the
// status is repeated in the call.
func ends(r provider.TypeRow) bool {
	return slices.Contains(provider.Endings(), r) || r.Type == "no_answer" || r.Type == "no_output"
}

// match names what a row matches: "429", "405 to 499", "text: overloaded" or "500,
// text: overloaded".
func match(r retry.Row) string {
	match := strconv.Itoa(r.First)
	switch {
	case r.First == 0:
		return "text: " + r.Text
	case r.First != r.Last:
		match = fmt.Sprintf("%d to %d", r.First, r.Last)
	}
	if r.Text != "" {
		match += ", text: " + r.Text
	}
	return match
}

// errorTables are the tables of docs/errors.md as the code has them.
func errorTables() string {
	var b strings.Builder
	b.WriteString("| status or words | reason | repeated |\n| --- | --- | --- |\n")
	for _, r := range retry.Table() {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", match(r), r.Kind, repeated(r.InCall, r.Queued))
	}
	b.WriteString("\n| provider | type | reason | repeated |\n| --- | --- | --- | --- |\n")
	for _, r := range append(provider.ErrorTypes(), provider.Endings()...) {
		reason, again := "`"+string(r.Kind)+"`", repeated(r.Kind.InCall(503) && !ends(r), r.Kind.Queued())
		switch {
		case r.Kind == "":
			reason, again = "by its words or status", ""
		case r.Weak:
			reason += ", or by its words"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", r.Provider, r.Type, reason, again)
	}
	return b.String()
}

func TestErrorsAreDocumented(t *testing.T) {
	const begin, end = "<!-- tables: jobs/model/provider/classify_doc_test.go -->\n", "<!-- end of tables -->"
	doc, err := os.ReadFile("../../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), begin)
	got, _, closed := strings.Cut(rest, end)
	if want := errorTables(); !ok || !closed || strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("docs/errors.md differs from the code. Put this between its marks:\n\n%s", want)
	}
}

// No type is in the table twice, and none is one that a provider could use for a
// sentence.
func TestErrorTypes(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range append(provider.ErrorTypes(), provider.Endings()...) {
		if seen[r.Provider+r.Type] {
			t.Errorf("%s of %s is there twice", r.Type, r.Provider)
		}
		seen[r.Provider+r.Type] = true
		if r.Kind == "" && !r.Weak || strings.ContainsAny(r.Type, " \n|`") {
			t.Errorf("row %+v", r)
		}
	}
}
