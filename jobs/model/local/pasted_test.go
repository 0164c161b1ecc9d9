package local

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// What people paste is summarized by its words: pasted.json says for each file
// what no part of the summary may hold, and what one must.
func TestPastedMaterialIsReadForItsWords(t *testing.T) {
	raw, err := os.ReadFile("testdata/pasted.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		File          string
		Not, Contains []string
		TitleNot      string `json:"title_not"`
		TextNot       string `json:"text_not"`
	}
	raw = bytes.ReplaceAll(raw, []byte(`\\u200d`), []byte(`\\x{200d}`)) // as Go's expressions have it
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("testdata/pasted")
	if err != nil || len(files) != len(cases) {
		t.Fatalf("%d files and %d cases, error %v", len(files), len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.File, func(t *testing.T) {
			pasted, err := os.ReadFile("testdata/pasted/" + c.File)
			if err != nil {
				t.Fatal(err)
			}
			var s summary
			if err := json.Unmarshal(ask(t, "summary", text(string(pasted))).Content, &s); err != nil {
				t.Fatal(err)
			}
			all := s.Title + "\n" + s.Summary + "\n" + strings.Join(s.KeyPoints, "\n")
			for _, not := range c.Not {
				if strings.Contains(all, not) {
					t.Errorf("%q is in\n%s", not, all)
				}
			}
			for _, want := range c.Contains {
				if !strings.Contains(all, want) {
					t.Errorf("%q is not in\n%s", want, all)
				}
			}
			if c.TitleNot != "" && regexp.MustCompile(c.TitleNot).MatchString(s.Title) {
				t.Errorf("the title is %q", s.Title)
			}
			if c.TextNot != "" && regexp.MustCompile(c.TextNot).MatchString(all) {
				t.Errorf("%s is in\n%s", c.TextNot, all)
			}
			checkProperties(t, text(string(pasted)))
		})
	}
}
