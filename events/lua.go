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
	var b strings.Builder
	b.WriteString("    local may = {\n")
	for _, r := range rules() {
		from, job := string(r.from), "other"
		if r.unresolved {
			from += "?"
		}
		if r.sameJob {
			job = "same"
		}
		for _, to := range r.to {
			fmt.Fprintf(&b, "        ['%s %s %s'] = true,\n", from, to, job)
		}
	}
	b.WriteString("    }\n    local names, known = {}, {}\n    for name in string.gmatch('")
	for _, f := range fields() {
		b.WriteString(f.name + " ")
	}
	b.WriteString("', '%S+') do\n        names[#names + 1] = name\n        known[name] = true\n    end\n")
	fmt.Fprintf(&b, "    local unresolved, max_log = '%s', %d\n", OutcomeUnknown, MaxLog)
	return strings.Replace(appendLua, "--TABLES\n", b.String(), 1)
}
