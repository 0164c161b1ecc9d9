package local

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/transcript"
)

// large makes varied text of about n bytes.
func large(n int) string {
	nouns := strings.Fields("database invoice customer server backup contract printer harbour bridge festival library sensor engine garden museum ticket")
	verbs := strings.Fields("blocks repairs replaces opens measures delays protects moves")
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString("The " + nouns[i%16] + " of the " + nouns[(i*7+i/16)%16] + " " + verbs[i%8] + " the " + nouns[(i*5+i/40)%16] + " number " + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + ". ")
		if i%9 == 8 {
			b.WriteString("\n\n")
		}
	}
	return b.String()
}

func FuzzMaterial(f *testing.F) {
	for _, s := range odd {
		f.Add("", s, "")
	}
	for _, m := range samples(f) {
		second := ""
		if len(m) > 1 {
			second = m[1].Content
		}
		f.Add(m[0].Role, m[0].Content, second)
	}
	f.Fuzz(func(t *testing.T, role, first, second string) {
		if len(first)+len(second) > 1<<14 {
			return
		}
		m := []model.Message{{Role: role, Content: first}, {Role: "assistant", Content: second}}
		for _, w := range workloads {
			r, err := New().Generate(t.Context(), model.Request{Workload: w, Material: m})
			var e *model.Error
			switch {
			case errors.As(err, &e):
				if e.Kind != retry.InvalidInput || !transcript.Blank(first) || !transcript.Blank(second) {
					t.Fatalf("%s: %v", w, err)
				}
			case !json.Valid(r.Content):
				t.Fatalf("%s: %q", w, r.Content)
			}
		}
		if transcript.Blank(first) && transcript.Blank(second) {
			return
		}
		var s summary
		if err := json.Unmarshal(ask(t, "summary", m).Content, &s); err != nil {
			t.Fatal(err)
		}
		if strings.TrimFunc(s.Title, unicode.IsSpace) == "" || s.Summary == "" || columns(s.Title) > titleWidth {
			t.Fatalf("bad summary %+v", s)
		}
		for _, sent := range read(m).sentences {
			if q := sent.text; q == "" || !utf8.ValidString(q) || utf8.RuneCountInString(q) > maxSentence {
				t.Fatalf("bad sentence %q", q)
			}
		}
	})
}

func BenchmarkModel(b *testing.B) {
	for name, n := range map[string]int{"10KB": 10 << 10, "1MiB": 1 << 20} {
		m := text(large(n))
		for _, w := range workloads {
			b.Run(name+"/"+w, func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					ask(b, w, m)
				}
			})
		}
	}
}
