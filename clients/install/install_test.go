// Package install takes each client into a fresh project, by the words of its README.
package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestGo(t *testing.T) {
	p := newProject(t, "go")
	p.write("go.mod", "module fresh\n\ngo 1.24\n")
	p.write("main.go", "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\t\"os\"\n\n\ttidings \"github.com/tidings/tidings/clients/go\"\n)\n\n"+
		"func main() {\n\tif err := run(context.Background(), os.Args[1]); err != nil {\n\t\tpanic(err)\n\t}\n}\n\n"+
		"func run(ctx context.Context, transcript string) error {\n"+p.block("go")+"return nil\n}\n")
	p.install()
	p.run("go", "vet", "./...")
}

func TestWeb(t *testing.T) {
	p := newProject(t, "web")
	p.write("package.json", `{"name": "fresh", "private": true}`)
	p.install()
	p.run("npm", "install", "--no-audit", "--no-fund", "typescript@5.9.3", "react@19.2.0", "@types/react@19.2.2", "jest@30.2.0")

	p.write("first.ts", "import { subscribeSummaryStatus, type SummaryStatus } from \"@tidings/client\";\n"+
		"declare const transcript: string;\ndeclare function render(s: SummaryStatus): void;\n"+
		"export async function first(): Promise<void> {\n"+p.block("ts")+"}\n")
	p.write("summary.tsx", p.block("tsx"))
	for _, resolution := range [][]string{
		{"--module", "commonjs", "--moduleResolution", "node10"},
		{"--module", "nodenext", "--moduleResolution", "nodenext"},
		{"--module", "esnext", "--moduleResolution", "bundler"},
	} {
		p.run("npx", append([]string{"tsc", "--noEmit", "--strict", "--jsx", "react-jsx", "--target", "es2022", "--lib", "es2022,dom,dom.iterable",
			"first.ts", "summary.tsx"}, resolution...)...)
	}

	p.write("module.mjs", "import { watchAll } from \"@tidings/client\";\nimport \"@tidings/client/tidings-error\";\nif (typeof watchAll !== \"function\") throw new Error();\n")
	p.run("node", "module.mjs")
	p.write("client.test.js", "const { subscribeSummaryStatus } = require(\"@tidings/client\");\nconst { useSummaryStatus } = require(\"@tidings/client/react\");\n"+
		"test(\"is there\", () => expect([typeof subscribeSummaryStatus, typeof useSummaryStatus]).toEqual([\"function\", \"function\"]));\n")
	p.run("npx", "jest")
}

func TestKotlin(t *testing.T) {
	p := newProject(t, "kotlin")
	coordinates := regexp.MustCompile(`"(dev\.tidings:[a-z-]+:[0-9.]+)"`).FindStringSubmatch(p.readme)
	if coordinates == nil {
		t.Fatal("the README names no coordinates")
	}
	p.write("src/main/kotlin/Fresh.kt", "import dev.tidings.client.*\n\nfun render(status: Status) = println(status)\n\nsuspend fun run(transcript: String) {\n"+p.block("kotlin")+"}\n")
	part := strings.Split(coordinates[1], ":")
	p.write("pom.xml", strings.NewReplacer("GROUP", part[0], "ARTIFACT", part[1], "VERSION", part[2]).Replace(pom))
	p.install()
	p.run("mvn", "-B", "-ntp", "-q", "compile")
}

const pom = `<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>fresh</groupId>
  <artifactId>fresh</artifactId>
  <version>0</version>
  <dependencies>
    <dependency><groupId>GROUP</groupId><artifactId>ARTIFACT</artifactId><version>VERSION</version></dependency>
    <dependency><groupId>io.ktor</groupId><artifactId>ktor-client-okhttp-jvm</artifactId><version>3.5.2</version></dependency>
  </dependencies>
  <build>
    <sourceDirectory>src/main/kotlin</sourceDirectory>
    <plugins>
      <plugin>
        <groupId>org.jetbrains.kotlin</groupId>
        <artifactId>kotlin-maven-plugin</artifactId>
        <version>2.3.21</version>
        <executions><execution><phase>compile</phase><goals><goal>compile</goal></goals></execution></executions>
      </plugin>
    </plugins>
  </build>
</project>
`

// project is a fresh one, for the client in a directory beside this.
type project struct {
	t           *testing.T
	dir, readme string
}

func newProject(t *testing.T, client string) *project {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join("..", client, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return &project{t: t, dir: t.TempDir(), readme: string(readme)}
}

// block is the README's first block in a language.
func (p *project) block(language string) string {
	p.t.Helper()
	_, rest, ok := strings.Cut(p.readme, "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		p.t.Fatalf("the README has no block of %s", language)
	}
	return text
}

// install does what the README says, with the checkout's own path.
func (p *project) install() {
	p.t.Helper()
	checkout, err := filepath.Abs("../..")
	if err != nil {
		p.t.Fatal(err)
	}
	commands := p.block("sh")
	if !strings.Contains(commands, "/path/to/tidings") {
		p.t.Fatalf("the first commands do not install from a checkout:\n%s", commands)
	}
	p.run("bash", "-euc", strings.ReplaceAll(commands, "/path/to/tidings", checkout))
}

func (p *project) write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// run executes a command in the project; the test fails with what it said.
func (p *project) run(name string, args ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), name, args...)
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
