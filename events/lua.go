package events

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed append.lua
var appendLua string

// Lua is what a Redis script that changes a topic's status begins with: it
// gives the script now_ms, last and append (see append.lua), with the status
// table and the field names of this package.
func Lua() string {
	var may, names, known strings.Builder
	for _, r := range rules() {
		from, job := string(r.from), "other"
		if r.unresolved {
			from += "?"
		}
		if r.sameJob {
			job = "same"
		}
		for _, to := range r.to {
			fmt.Fprintf(&may, "['%s %s %s'] = true, ", from, to, job)
		}
	}
	for _, f := range fields() {
		fmt.Fprintf(&names, "'%s', ", f.name)
		fmt.Fprintf(&known, "%s = true, ", f.name)
	}
	tables := fmt.Sprintf("        local may = {%s}\n        local names = {%s}\n        local known = {%s}\n"+
		"        local unresolved, max_log = '%s', %d\n", &may, &names, &known, OutcomeUnknown, MaxLog)
	return strings.Replace(appendLua, "--TABLES\n", tables, 1)
}
