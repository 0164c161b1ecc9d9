//go:build slow

package local

import (
	"strings"
	"testing"
	"time"
)

// Inputs that made a segmenter or one of our own loops quadratic. Eight times as
// much input may take twenty-four times as long, but not sixty-four times; both sizes
// are measured at the same moment, so that a busy machine does not count.
func TestIsLinear(t *testing.T) {
	took := func(s string) time.Duration {
		start := time.Now()
		ask(t, "summary", text(s))
		return time.Since(start)
	}
	for name, build := range map[string]func(n int) string{
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
			small, big := build(1<<18), build(1<<21)
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
