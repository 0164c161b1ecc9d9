package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rules of the repository, checked over every file of the repository. The files
// are parsed in this process and not by running go list: the test cache knows
// which files a test opens, but not what a command that it runs looked at.

const module = "github.com/tidings/tidings/"

// source is one Go file as the rules see it.
type source struct {
	name    string // path from the top of the repository, with slashes
	syntax  *ast.File
	lines   int
	imports []string
}

func (s source) dir() string { return path.Dir(s.name) }

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// support tells whether the file belongs to a package made for tests.
func (s source) support() bool { return isSupport(s.dir()) }

func isSupport(dir string) bool { return strings.HasSuffix(dir, "test") }

// rule is one rule of the repository. broken returns what is wrong with a file, or
// "". Each rule carries a file that breaks it, and a test that it does see it.
type rule struct {
	name    string
	why     string
	broken  func(source) string
	example [2]string // name and text of a file that breaks the rule
}

func rules() []rule {
	return []rule{{
		name: "arrows", why: "each package can be understood and changed knowing only those below it",
		broken:  arrows,
		example: [2]string{"events/log.go", `package events; import _ "github.com/tidings/tidings/jobs"`},
	}, {
		name: "one door", why: "a dependency that one file knows can be replaced in an afternoon",
		broken:  oneDoor,
		example: [2]string{"server/sneaky.go", `package server; import _ "github.com/redis/go-redis/v9"`},
	}, {
		name: "test support", why: "what is made for tests must not reach users' machines",
		broken:  testSupport,
		example: [2]string{"jobs/service.go", `package jobs; import _ "github.com/tidings/tidings/events/eventstest"`},
	}, {
		name: "environment", why: "a setting that is read far from config.go is in no --help and no document",
		broken:  environment,
		example: [2]string{"jobs/service.go", `package jobs; import env "os"; var home = env.Getenv("HOME")`},
	}, {
		name: "init", why: "what happens on import happens to everybody and in no readable order",
		broken:  initFunction,
		example: [2]string{"jobs/service.go", `package jobs; func init() {}`},
	}, {
		name: "length", why: "a file that has outgrown one subject hides the second one",
		broken:  length,
		example: [2]string{"jobs/service.go", "package jobs\n" + strings.Repeat("\n", maxLines)},
	}, {
		name: "sleep", why: "a test that sleeps is slow on a fast machine and fails on a slow one",
		broken:  sleep,
		example: [2]string{"jobs/a_test.go", `package jobs; import ("testing/synctest"; "time"); func g() { synctest.Wait() }; func f() { time.Sleep(1) }`},
	}, {
		name: "skip", why: "a skipped test looks like one that passed",
		broken:  skip,
		example: [2]string{"jobs/a_test.go", `package jobs; import "testing"; func TestX(t *testing.T) { t.Skip() }`},
	}}
}

// maxLines is the most a file may have unless a program wrote it.
const maxLines = 500

// below lists which of our packages each one may import.
func below() map[string][]string {
	return map[string][]string{
		"events":           {},
		"locales":          {},
		"jobs/retry":       {},
		"jobs/model":       {"jobs/retry"},
		"jobs/transcript":  {},
		"jobs/model/local": {"jobs/model", "jobs/retry", "jobs/transcript"},
		// The vendors' SDKs take long to compile: whatever does not open a model stays clear of them.
		"jobs/model/provider": {"jobs/model", "jobs/retry"},
		"jobs/gate":           {"jobs/retry"},
		"jobs/lifecycle":      {"events", "jobs/retry"},
		"jobs/store":          {"events", "jobs/lifecycle"},
		"jobs":                {"events", "jobs/lifecycle", "jobs/store", "jobs/model", "jobs/retry", "jobs/gate"},
		"jobs/simulation":     {"events", "jobs", "jobs/lifecycle", "jobs/store", "jobs/gate", "jobs/model", "jobs/retry"}, // tests alone
		"server":              {"events", "locales", "jobs", "jobs/lifecycle", "jobs/model", "jobs/gate"},                  // all but jobs for the types of what is shown and ordered
		"cmd/vulncheck":       {},
		"cmd/tidings/drill":   {}, // it sees the product from outside
		"cmd/tidings":         {"cmd/tidings/drill", "events", "locales", "jobs", "jobs/store", "jobs/model", "jobs/retry", "jobs/gate", "server", "jobs/model/local", "jobs/model/provider"},
	}
}

// inTests is what the tests of a package may know besides.
func inTests() map[string][]string {
	return map[string][]string{
		"jobs":       {"jobs/model/provider", "jobs/model/local"}, // canaries go through every adapter
		"jobs/store": {"jobs/retry"},
	}
}

func arrows(s source) string {
	dir, tests := s.dir(), s.test() || s.support()
	if s.support() { // eventstest stands where events stands
		dir = path.Dir(dir)
	}
	allowed, known := below()[dir]
	if !known {
		return "the package is in no row of below(): give it its place there"
	}
	for _, imported := range s.imports {
		ours, ok := strings.CutPrefix(imported, module)
		if !ok || ours == dir || slices.Contains(allowed, ours) || tests && slices.Contains(inTests()[dir], ours) {
			continue
		}
		if tests && isSupport(ours) { // the rule "test support" is about these
			continue
		}
		return dir + " may not import " + ours
	}
	return ""
}

// door says who may import a dependency: files or packages, and whether tests
// may as well. What only one package needs is not worth a row.
type door struct {
	imported string // and everything below it
	by       []string
	tests    bool
}

func doors() []door {
	return []door{
		{"github.com/hibiken/asynq", []string{"jobs/asynq.go"}, true},
		{"github.com/hibiken/asynqmon", []string{"jobs/asynq.go"}, false},
		{"github.com/redis/go-redis", []string{"events", "jobs", "jobs/store", "jobs/gate", "cmd/tidings", "cmd/tidings/drill/redis.go"}, true},
		{"github.com/gin-gonic/gin", []string{"server"}, true},
		{"github.com/r3labs/sse", []string{"server/sse.go", "cmd/tidings/watch.go"}, true},
		{"github.com/alicebob/miniredis", []string{"cmd/tidings/embedded.go"}, true},
		{"github.com/alecthomas/kong", []string{"cmd/tidings/config.go", "cmd/tidings/main.go"}, true},
		{"github.com/nicksnyder/go-i18n", []string{"locales"}, true},
	}
}

func oneDoor(s source) string {
	for _, d := range doors() {
		if d.tests && (s.test() || s.support()) || slices.Contains(d.by, s.name) || slices.Contains(d.by, s.dir()) {
			continue
		}
		for _, imported := range s.imports {
			if imported == d.imported || strings.HasPrefix(imported, d.imported+"/") {
				return imported + " is imported by " + strings.Join(d.by, ", ") + " only"
			}
		}
	}
	return ""
}

func testSupport(s source) string {
	if s.test() || s.support() {
		return ""
	}
	for _, imported := range s.imports {
		if ours, ok := strings.CutPrefix(imported, module); ok && isSupport(ours) || imported == "testing" {
			return imported + " is for tests"
		}
	}
	return ""
}

func environment(s source) string {
	if s.name == "cmd/tidings/config.go" || s.name == "cmd/tidings/environment.go" || s.test() || s.support() {
		return ""
	}
	return calls(s, s.syntax, "os", "Getenv", "LookupEnv", "Environ", "ExpandEnv")
}

func initFunction(s source) string {
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			return "func init"
		}
	}
	return ""
}

func length(s source) string {
	if s.lines > maxLines && !ast.IsGenerated(s.syntax) {
		return fmt.Sprintf("%d lines, at most %d", s.lines, maxLines)
	}
	return ""
}

// sleep allows virtual time alone, which costs none: in a function that makes a
// bubble, or that calls one which does, in its file or among those with a name
// for it in other files of the package: play, and every ...Testbed.
func sleep(s source) string {
	if !s.test() {
		return ""
	}
	bubbles := map[string]bool{}
	inBubble := func(f ast.Node) (yes bool) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				yes = yes || ok && x.Name == "synctest"
			case *ast.CallExpr:
				name, ok := n.Fun.(*ast.Ident)
				yes = yes || ok && (bubbles[name.Name] || name.Name == "play" || strings.HasSuffix(name.Name, "Testbed"))
			}
			return !yes
		})
		return yes
	}
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && inBubble(f) {
			bubbles[f.Name.Name] = true
		}
	}
	for _, d := range s.syntax.Decls {
		if found := calls(s, d, "time", "Sleep"); found != "" && !inBubble(d) {
			return found
		}
	}
	return ""
}

func skip(s source) string {
	if !s.test() && !s.support() {
		return ""
	}
	if slices.Contains(s.imports, "pgregory.net/rapid") { // whose T.Skip gives up a step, not the test
		return ""
	}
	found := ""
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if strings.HasPrefix(n.Name.Name, "Fuzz") {
				return false // there it gives up an input
			}
		case *ast.IfStmt:
			if asked, ok := n.Cond.(*ast.CallExpr); ok && isSelector(asked.Fun, "Short") {
				return false // -short asks for it
			}
		}
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) < 2 {
			if isSelector(call.Fun, "Skip", "Skipf", "SkipNow") {
				found = "a skipped test"
			}
		}
		return true
	})
	return found
}

func isSelector(e ast.Expr, names ...string) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains(names, s.Sel.Name)
}

// calls finds a use of one of a standard package's functions, under whatever
// name the file imports the package.
func calls(s source, within ast.Node, pkg string, functions ...string) string {
	name := pkg
	for _, i := range s.syntax.Imports {
		if p, _ := strconv.Unquote(i.Path.Value); p == pkg && i.Name != nil {
			name = i.Name.Name
		}
	}
	found := ""
	ast.Inspect(within, func(n ast.Node) bool {
		if f, ok := n.(*ast.SelectorExpr); ok && slices.Contains(functions, f.Sel.Name) {
			if x, ok := f.X.(*ast.Ident); ok && x.Name == name {
				found = pkg + "." + f.Sel.Name
			}
		}
		return true
	})
	return found
}

func parse(name string, text []byte) (source, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	s := source{name: name, syntax: f, lines: strings.Count(string(text), "\n")}
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, p)
	}
	return s, nil
}

// eachFile hands over every file of the repository that people write.
func eachFile(t *testing.T, do func(name string, text []byte)) {
	t.Helper()
	const top = "../.."
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "node_modules", "target", "build"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if name == ".git" { // a linked worktree: where the rest of it is
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		do(name, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRulesOfTheRepository(t *testing.T) {
	seen := 0
	eachFile(t, func(name string, text []byte) {
		// clients/go is a module of its own, made to be copied out.
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "clients/") {
			return
		}
		s, err := parse(name, text)
		if err != nil {
			t.Error(err)
			return
		}
		seen++
		for _, r := range rules() {
			if problem := r.broken(s); problem != "" {
				t.Errorf("%s breaks the rule %q: %s\n\t(%s)", name, r.name, problem, r.why)
			}
		}
	})
	if seen < 20 {
		t.Errorf("only %d Go files were looked at: is this still the top of the repository?", seen)
	}
}

func TestEveryRuleSeesItsExample(t *testing.T) {
	for _, r := range rules() {
		s, err := parse(r.example[0], []byte(r.example[1]))
		if err != nil {
			t.Errorf("rule %q: %v", r.name, err)
		} else if r.broken(s) == "" {
			t.Errorf("rule %q does not see what breaks it: %s", r.name, r.example[1])
		}
	}
	for _, d := range doors() {
		s, err := parse("locales/sneaky.go", []byte("package x; import _ "+strconv.Quote(d.imported)))
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(d.by, "locales") {
			s.name = "events/sneaky.go"
		}
		if oneDoor(s) == "" {
			t.Errorf("%s can be imported from anywhere", d.imported)
		}
	}
}

// unwanted words, in two halves so that this file holds none of them.
func unwanted() map[string]string {
	hosts := "the host of a package registry: builds take it from the user's own settings"
	return map[string]string{
		"proxy.gol" + "ang.org": hosts, "sum.gol" + "ang.org": hosts, "registry.npm" + "js": hosts, "crates" + ".io": hosts,
		"py" + "pi.org": hosts, "python" + "hosted": hosts, "maven." + "org": hosts, "deb.de" + "bian.org": hosts, "repo." + "maven": hosts,
		"/wo" + "rk/": "a path of one machine", "TO" + "DO": "unfinished", "FIX" + "ME": "unfinished", "lorem " + "ipsum": "unfinished",
	}
}

func findUnwanted(text string) (word, why string) {
	for word, why := range unwanted() {
		if strings.Contains(text, word) {
			return word, why
		}
	}
	return "", ""
}

func TestNoUnwantedWords(t *testing.T) {
	eachFile(t, func(name string, text []byte) {
		if word, why := findUnwanted(string(text)); word != "" {
			t.Errorf("%s contains %q (%s)", name, word, why)
		}
	})
	for word := range unwanted() {
		if found, _ := findUnwanted("a line with " + word + " in it"); found == "" {
			t.Errorf("%q is not found", word)
		}
	}
}
