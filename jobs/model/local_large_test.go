package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidings/tidings/jobs/retry"
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

// Inputs that made a segmenter or one of our own loops quadratic. Eight times as
// much input may take twenty-four times as long, but not sixty-four times; both sizes
// are measured at the same moment, so that a busy machine does not count.
func TestLocalIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("several MiB")
	}
	took := func(s string) time.Duration {
		start := time.Now()
		ask(t, "summary", text(s))
		return time.Since(start)
	}
	for name, make := range map[string]func(n int) string{
		"prose":     large,
		"closers":   func(n int) string { return "a." + strings.Repeat(")", n) },
		"spaces":    func(n int) string { return "a." + strings.Repeat(" ", n) + "b" },
		"marks":     func(n int) string { return "a." + strings.Repeat("\u0301", n/2) },
		"invisible": func(n int) string { return "a." + strings.Repeat("\u200b", n/3) },
		"word":      func(n int) string { return strings.Repeat("x", n) },
		"han":       func(n int) string { return strings.Repeat("天地玄黄宇宙洪荒", n/24) },
		"thai":      func(n int) string { return strings.Repeat("ห้องสมุด", n/24) },
		"dots":      func(n int) string { return strings.Repeat(". ", n/2) },
		"lines":     func(n int) string { return strings.Repeat("a\n", n/2) },
		"commas":    func(n int) string { return strings.Repeat("a, ", n/3) },
		"initials":  func(n int) string { return strings.Repeat("A. ", n/3) },
		"wrapped": func(n int) string {
			return strings.Repeat("a line that is long enough to look as if it was wrapped by an editor\n", n/69)
		},
	} {
		t.Run(name, func(t *testing.T) {
			small, big := make(1<<18), make(1<<21)
			var one, eight time.Duration
			for range 4 { // a slow moment may hit once, not four times
				one, eight = took(small), took(big)
				if eight <= 24*one || eight < 100*time.Millisecond {
					return
				}
			}
			t.Errorf("a quarter of a MiB took %s, two MiB %s", one, eight)
		})
	}
}

func FuzzLocal(f *testing.F) {
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
		m := []Message{{Role: role, Content: first}, {Role: "assistant", Content: second}}
		for _, w := range localWorkloads {
			r, err := NewLocal().Generate(t.Context(), Request{Workload: w, Material: m})
			var e *Error
			switch {
			case errors.As(err, &e):
				if e.Kind != retry.InvalidInput || !blank(clean(first)) || !blank(clean(second)) {
					t.Fatalf("%s: %v", w, err)
				}
			case !json.Valid(r.Content):
				t.Fatalf("%s: %q", w, r.Content)
			}
		}
		if blank(clean(first)) && blank(clean(second)) {
			return
		}
		var s summaryOutput
		if err := json.Unmarshal(ask(t, "summary", m).Content, &s); err != nil {
			t.Fatal(err)
		}
		if strings.TrimFunc(s.Title, unicode.IsSpace) == "" || s.Summary == "" || width(s.Title) > titleWidth {
			t.Fatalf("bad summary %+v", s)
		}
		for _, sent := range read(m, "").sentences {
			if q := sent.text(); q == "" || !utf8.ValidString(q) || utf8.RuneCountInString(q) > maxSentence {
				t.Fatalf("bad sentence %q", q)
			}
		}
	})
}

func BenchmarkLocal(b *testing.B) {
	for name, n := range map[string]int{"10KB": 10 << 10, "1MiB": 1 << 20} {
		m := text(large(n))
		for _, w := range localWorkloads {
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
