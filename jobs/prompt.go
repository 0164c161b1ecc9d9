package jobs

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"text/template"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/model"
)

// The prompts are files with their version in the name. A wording is never
// changed in place: a new one gets the next version, and the version it replaces
// goes when nothing names it, so that what a document was written with can be
// looked up. Golden tests hold each wording as it is rendered.

//go:embed prompts
var promptFiles embed.FS

// frame is the version of what stands around every workload's own text.
const frame = "v1"

// prompts are the parsed templates, by file name.
type prompts struct{ all *template.Template }

func parsePrompts() (prompts, error) {
	all, err := template.New("").Option("missingkey=error").ParseFS(promptFiles, "prompts/*.txt")
	if err != nil {
		return prompts{}, fmt.Errorf("jobs: a prompt cannot be read: %w", err)
	}
	return prompts{all}, nil
}

func (p prompts) render(name string, data any) (string, error) {
	var b strings.Builder
	if err := p.all.ExecuteTemplate(&b, name+".txt", data); err != nil {
		return "", fmt.Errorf("jobs: prompt %s: %w", name, err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// compiledIn are the prompts, parsed once.
var compiledIn = sync.OnceValue(func() prompts {
	p, err := parsePrompts()
	if err != nil { // a test parses them
		panic(err)
	}
	return p
})

// render makes the request of an attempt. The material is delimited, and the
// model is told that it is data: what a transcript says is never an order.
func render(w Workload, t events.Topic, language string, in Input) model.Request {
	p := compiledIn()
	record := transcript(in)
	// The delimiters carry a digest of what stands between them. Nobody can write
	// one into a text beforehand, as it would change the digest.
	sum := sha256.Sum256([]byte(record))
	id := hex.EncodeToString(sum[:6])
	data := map[string]any{
		"Name": w.Name, "Language": languageName(language),
		"Open": "<record " + id + ">", "Close": "</record " + id + ">", "Record": record,
	}
	var system, prompt string
	var err error
	if data["Task"], err = p.render(w.Name+"."+w.Prompt, data); err == nil {
		if system, err = p.render("frame."+frame, data); err == nil {
			prompt, err = p.render("material."+frame, data)
		}
	}
	if err != nil { // compiled in, and every workload's is rendered by a test
		panic(err)
	}
	return model.Request{
		Workload: w.Name, Language: language, Material: in.Material(),
		System: system, Prompt: prompt, Schema: w.Schema, MaxOutputTokens: w.MaxOutputTokens,
		Long: w.Long, Topic: t.String(),
	}
}

// transcript writes the material with "| " before each of its lines, so that no
// line of it can pass for one of ours: no turn, no delimiter.
func transcript(in Input) string {
	var b strings.Builder
	for i, m := range in.Material() {
		if m.Role != "" {
			fmt.Fprintf(&b, "[%d] %s\n", i+1, m.Role)
		}
		for line := range strings.Lines(plainText(m.Content)) {
			b.WriteString("| " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return b.String()
}

// languageName tells a model the language to write in: small ones know names
// better than tags.
func languageName(tag string) string {
	if tag == "" {
		return "the language that most of the record is in"
	}
	names := map[string]string{
		"ar": "Arabic", "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish", "fr": "French", "it": "Italian",
		"ja": "Japanese", "ko": "Korean", "nb": "Norwegian Bokmål", "nl": "Dutch", "nn": "Norwegian Nynorsk", "no": "Norwegian Bokmål",
		"pl": "Polish", "pt": "Portuguese", "sv": "Swedish", "zh": "Chinese",
	}
	base, _, regional := strings.Cut(tag, "-")
	name, known := names[strings.ToLower(base)]
	switch {
	case !known:
		return "the language with the BCP 47 tag " + tag
	case regional:
		return name + " (" + tag + ")"
	}
	return name
}
