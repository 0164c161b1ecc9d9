package drill

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is what a drill leaves: enough to know what was tested, and to do it
// again (S4-60).
type Report struct {
	Started  time.Time           `json:"started"`
	Took     string              `json:"took"`
	Form     string              `json:"form"` // short or whole
	Seed     uint64              `json:"seed"`
	Workers  int                 `json:"workers"`
	Machine  string              `json:"machine"`
	Versions map[string]string   `json:"versions"`
	Traffic  map[string][]string `json:"traffic"`  // by row
	Settings map[string][]string `json:"settings"` // by row, a text for each fleet
	Lines    []Line              `json:"gates"`
}

func newReport(o Options) *Report {
	r := &Report{Started: time.Now().UTC(), Form: "whole", Seed: o.Seed, Versions: map[string]string{},
		Machine: fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Traffic: map[string][]string{}, Settings: map[string][]string{}}
	maps.Copy(r.Versions, o.Versions)
	r.Workers = o.Replicas
	if o.Short {
		r.Form, r.Workers = "short", min(o.Replicas, 3)
	}
	return r
}

// Passed tells that there are gates, and that all have passed.
func (r *Report) Passed() bool {
	return len(r.Lines) > 0 && !slices.ContainsFunc(r.Lines, func(l Line) bool { return !l.Pass })
}

// Save writes the report into a file: as JSON if its name ends so, else as
// Markdown.
func (r *Report) Save(file string) error {
	text := []byte(r.markdown())
	if filepath.Ext(file) == ".json" {
		var err error
		if text, err = json.MarshalIndent(r, "", "  "); err != nil {
			return err
		}
		text = append(text, '\n')
	}
	return os.WriteFile(file, text, 0o644)
}

func (r *Report) markdown() string {
	var b strings.Builder
	result := "All gates passed."
	if !r.Passed() {
		result = "**Not all gates passed.**"
	}
	fmt.Fprintf(&b, "# Drill of %s\n\n%s The %s form took %s with up to %d workers and seed %d on %s.\n\n",
		r.Started.Format("2006-01-02 15:04 MST"), result, r.Form, r.Took, r.Workers, r.Seed, r.Machine)
	b.WriteString("## Gates\n\n| row | gate | observed | pass |\n| --- | --- | --- | --- |\n")
	cell := strings.NewReplacer("|", "\\|", "\n", " ")
	for _, l := range r.Lines {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.Row, cell.Replace(l.Gate), cell.Replace(l.Observed), yesNo(l.Pass))
	}
	b.WriteString("\n## Versions\n\n")
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		fmt.Fprintf(&b, "- %s: %s\n", name, r.Versions[name])
	}
	b.WriteString("\n## Traffic\n\n")
	for _, name := range slices.Sorted(maps.Keys(r.Traffic)) {
		for _, text := range r.Traffic[name] {
			fmt.Fprintf(&b, "- %s: %s\n", name, text)
		}
	}
	b.WriteString("\n## Settings\n\nOf each row's fleets. What is not named had its default.\n\n")
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		for _, text := range r.Settings[name] {
			fmt.Fprintf(&b, "- %s: `%s`\n", name, text)
		}
	}
	return b.String()
}
