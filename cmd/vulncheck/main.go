// Command vulncheck fails when a package that this module builds has a known
// vulnerability. It is part of make lint and of no release.
//
// It runs govulncheck on a database that is pinned as every other dependency is:
// the module golang.org/x/vulndb, from the same place as all modules, so that the
// same commit gets the same answer. To take a newer one, set version and sum to
// what this prints:
//
//	go mod download -json golang.org/x/vulndb@latest
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	version = "v0.0.0-20261105234957-e22db6528018"
	sum     = "h1:mfngRv0Yoh0VApsXKEN82CjD99kl7mtparN3bs3JnqI="
)

// accepted are the vulnerabilities that we build with, each with the reason why
// it does no harm here. One that is not found any more fails too.
func accepted() map[string]string { return map[string]string{} }

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

// check looks at the packages that match the patterns, ./... without any.
func check(patterns []string) error {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	entries, err := download()
	if err != nil {
		return err
	}
	db, err := os.MkdirTemp("", "vulndb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(db)
	if err := layOut(entries, db); err != nil {
		return err
	}
	// Packages and not symbols: whether a vulnerable function can be reached takes
	// a minute to find out and changes with every edit.
	report, err := output(append([]string{"tool", "govulncheck", "-db", "file://" + filepath.ToSlash(db), "-scan", "package", "-format", "json"}, patterns...))
	if err != nil {
		return err
	}
	found, err := findings(report)
	if err != nil {
		return err
	}
	return judge(found, accepted())
}

// download returns the directory of the pinned database's entries.
func download() (string, error) {
	out, err := output([]string{"mod", "download", "-json", "golang.org/x/vulndb@" + version})
	if err != nil {
		return "", err
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	if module.Sum != sum {
		return "", fmt.Errorf("golang.org/x/vulndb@%s has the hash %s, want %s", version, module.Sum, sum)
	}
	return filepath.Join(module.Dir, "data", "osv"), nil
}

func output(args []string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return out, nil
}

// entry is what the database's index needs of a vulnerability (an OSV document).
type entry struct {
	ID        string     `json:"id"`
	Modified  time.Time  `json:"modified"`
	Withdrawn *time.Time `json:"withdrawn"`
	Affected  []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
	} `json:"affected"`
}

type (
	indexed struct {
		ID       string    `json:"id"`
		Modified time.Time `json:"modified"`
	}
	module struct {
		Path  string    `json:"path"`
		Vulns []indexed `json:"vulns"`
	}
)

// layOut writes the entries as govulncheck reads a database: see
// https://go.dev/security/vuln/database#api.
func layOut(entries, db string) error {
	files, err := filepath.Glob(filepath.Join(entries, "GO-*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no vulnerabilities in %s: has the module's layout changed?", entries)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(db, "ID"), 0o755), os.Mkdir(filepath.Join(db, "index"), 0o755)); err != nil {
		return err
	}
	var latest time.Time
	modules := map[string][]indexed{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var e entry
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if e.Withdrawn != nil {
			continue
		}
		if e.Modified.After(latest) {
			latest = e.Modified
		}
		for _, a := range e.Affected {
			name := a.Package.Name
			if list := modules[name]; len(list) == 0 || list[len(list)-1].ID != e.ID { // some name a module twice
				modules[name] = append(list, indexed{e.ID, e.Modified})
			}
		}
		if err := os.WriteFile(filepath.Join(db, "ID", e.ID+".json"), text, 0o644); err != nil {
			return err
		}
	}
	index := make([]module, 0, len(modules))
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		index = append(index, module{path, modules[path]})
	}
	return errors.Join(
		writeJSON(filepath.Join(db, "index", "modules.json"), index),
		writeJSON(filepath.Join(db, "index", "db.json"), map[string]time.Time{"modified": latest}),
	)
}

func writeJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o644)
}

// findings reads govulncheck's report: the vulnerabilities of packages that are
// built, with the module and version they are in. Those of modules alone, whose
// vulnerable packages are not built, are left out.
func findings(report []byte) (map[string]string, error) {
	found := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(report)); ; {
		var message struct {
			Finding *struct {
				OSV   string
				Fixed string `json:"fixed_version"`
				Trace []struct{ Module, Version, Package string }
			}
		}
		err := d.Decode(&message)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if f := message.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Package != "" {
			fixed := f.Fixed
			if fixed == "" {
				fixed = "no version yet"
			}
			found[f.OSV] = fmt.Sprintf("%s@%s, fixed in %s", f.Trace[0].Module, f.Trace[0].Version, fixed)
		}
	}
}

// judge compares what was found with what is accepted.
func judge(found, accepted map[string]string) error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if accepted[id] == "" {
			errs = append(errs, fmt.Errorf("%s in %s: update it, or say in cmd/vulncheck why it does no harm (https://pkg.go.dev/vuln/%s)", id, found[id], id))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		if found[id] == "" {
			errs = append(errs, fmt.Errorf("%s is accepted but not found any more: remove it", id))
		}
	}
	return errors.Join(errs...)
}
