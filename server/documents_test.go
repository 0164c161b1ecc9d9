package server

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

func TestErrorsMdListsEveryProblemWithItsStatus(t *testing.T) {
	text, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| <a id=\"(\\w+)\"></a>`(\\w+)` \\| (\\d+) \\|.*\\| (.*) \\|$").FindAllSubmatch(text, -1) {
		anchor, code, status := string(row[1]), string(row[2]), string(row[3])
		got, wait := statusOf(code)
		if anchor != code || strconv.Itoa(got) != status || (string(row[4]) == "`Retry-After`") != (wait > 0) {
			t.Errorf("%s (anchor %s) is listed with %s and %s; it is %d, wait %v", code, anchor, status, row[4], got, wait)
		}
		listed = append(listed, code)
	}
	inTestbed(t, func(t *testing.T, h *testbed) {
		all := codes(h)
		slices.Sort(all)
		slices.Sort(listed)
		if !slices.Equal(all, listed) {
			t.Errorf("listed\n%q\nthere are\n%q", listed, all)
		}
	})
}
