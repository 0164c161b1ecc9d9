package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/jobs/transcript"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden.json")

var workloads = []string{"summary", "guidance", "classification"}

// samples reads testdata: .txt is one text, .json a list of messages.
func samples(t testing.TB) map[string][]model.Message {
	t.Helper()
	out := map[string][]model.Message{}
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		switch {
		case strings.HasSuffix(name, ".golden.json"), name == "pasted.json":
		case strings.HasSuffix(name, ".json"):
			var m []model.Message
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			out[strings.TrimSuffix(name, ".json")] = m
		default:
			out[strings.TrimSuffix(name, ".txt")] = []model.Message{{Content: string(b)}}
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d samples found", len(out))
	}
	return out
}

func text(s string) []model.Message { return []model.Message{{Content: s}} }

// ask fails the test if the model does.
func ask(t testing.TB, workload string, m []model.Message) model.Response {
	t.Helper()
	r, err := New().Generate(t.Context(), model.Request{Workload: workload, Material: m})
	if err != nil {
		t.Fatalf("%s: %v", workload, err)
	}
	return r
}

func TestGolden(t *testing.T) {
	for name, material := range samples(t) {
		t.Run(name, func(t *testing.T) {
			all := map[string]json.RawMessage{}
			for _, w := range workloads {
				all[w] = ask(t, w, material).Content
			}
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(all); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got %s\nwant %s\nif the new output is better, run with -update", got.Bytes(), want)
			}
		})
	}
}

// odd is material that no writer had in mind.
var odd = map[string]string{
	"one word":         "Hello",
	"one sentence":     "The lift in building C is out of order until Friday.",
	"emoji":            "🎉🎉 👩‍👩‍👧‍👦 🇳🇴",
	"only punctuation": "?!... --- (((",
	"dots":             "....",
	"only a fence":     "```",
	"only a rule":      "---\n===",
	"no punctuation":   strings.Repeat("the cat sat on the mat and looked at the moon above the old town ", 40),
	"giant word":       strings.Repeat("x", 5000),
	"giant emoji":      strings.Repeat("👩‍👩‍👧‍👦", 500),
	"tower of marks":   "a" + strings.Repeat("\u0301", 3000) + ". Next one.",
	"repeated":         strings.Repeat("Please restart the router now. ", 50),
	"direction":        "הספרייה סגורה היום. \u202eדלת \u2066שנייה\u202c פתוחה. اتصل بالمكتب غدا.",
	"invalid utf8":     "The build \xff\xfe failed again. Restart it \xc3",
	"controls":         "First\x00 line here.\r\nSecond\x1b[31m line\u2028third line.",
	"hiragana":         "きょうは あめが ふって います。かさを もって いきました。みちで ともだちに あいました。",
	"code":             "```\nfunc main() {}\n```",
	"list only":        "- one\n- two\n- three",
	"numbers":          "1 2 3. 4 5 6! 7",
	"markdown":         "# Setup\n\nRun the installer first. It asks for a key.\n\n1. Open the lid\n2. Press the red button\n",
	"quotes":           "“Stop!” she said. “We are closed,” he added, (again.)",
}

// occurs compares as a reader does, white space aside.
func occurs(quote string, material []model.Message) bool {
	var all strings.Builder
	for _, m := range material {
		for _, p := range transcript.Read(m.Content) {
			all.WriteString(" " + p.Text)
		}
	}
	return strings.Contains(all.String(), quote)
}

// checkProperties holds for every input.
func checkProperties(t *testing.T, material []model.Message) {
	t.Helper()
	checkTitle := func(title string) {
		t.Helper()
		if strings.TrimSpace(title) == "" || !utf8.ValidString(title) || columns(title) > titleWidth || strings.Contains(title, "\n") {
			t.Errorf("bad title %q of %d columns", title, columns(title))
		}
		if last, _ := utf8.DecodeLastRuneInString(title); strings.ContainsAny(title, "abcdefghijklmnopqrstuvwxyz") && isMark(last) {
			t.Errorf("title %q ends in punctuation", title)
		}
		if !occurs(title, material) {
			t.Errorf("title %q is not in the material", title)
		}
	}
	quoted := func(s string) {
		t.Helper()
		if s == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxSentence {
			t.Errorf("bad quotation %q of %d runes", s, utf8.RuneCountInString(s))
		}
		if !occurs(s, material) {
			t.Errorf("%q is not in the material", s)
		}
	}
	strict := func(r model.Response, out any) {
		t.Helper()
		dec := json.NewDecoder(bytes.NewReader(r.Content))
		dec.DisallowUnknownFields()
		if err := dec.Decode(out); err != nil {
			t.Errorf("%s: %v", r.Content, err)
		}
		if r.Model != Name || r.Usage.InputTokens == nil || r.Usage.OutputTokens == nil || r.Usage.CachedTokens != nil {
			t.Errorf("got model %q, usage %+v", r.Model, r.Usage)
		}
	}

	var s summary
	strict(ask(t, "summary", material), &s)
	checkTitle(s.Title)
	if s.Summary == "" || utf8.RuneCountInString(s.Summary) > 4*(maxSentence+2) || len(s.KeyPoints) < 1 || len(s.KeyPoints) > 5 {
		t.Errorf("bad summary %+v", s)
	}
	for _, p := range s.KeyPoints {
		quoted(p)
	}

	var g guidance
	strict(ask(t, "guidance", material), &g)
	if len(g.Steps) < 1 || len(g.Steps) > 8 {
		t.Errorf("%d steps", len(g.Steps))
	}
	for _, st := range g.Steps {
		checkTitle(st.Title)
		quoted(st.Detail)
	}

	var c classification
	strict(ask(t, "classification", material), &c)
	if c.Label != "question" && c.Label != "information" || c.Confidence < 0.3 || c.Confidence > 0.7 {
		t.Errorf("bad classification %+v", c)
	}

	// The summary is made of sentences in the order of the material that do not
	// repeat each other.
	d := read(material)
	list := d.choose(nil, 5)
	if !slices.IsSortedFunc(list, inOrder) {
		t.Error("sentences are out of order")
	}
	for i, a := range list {
		quoted(a.text)
		for _, b := range list[i+1:] {
			if likeness(a, b) > 0.7 {
				t.Errorf("%q and %q say the same", a.text, b.text)
			}
		}
	}
	for _, w := range workloads {
		if a, b := ask(t, w, material), ask(t, w, material); !bytes.Equal(a.Content, b.Content) {
			t.Errorf("%s: got %s, then %s", w, a.Content, b.Content)
		}
	}
}

func TestProperties(t *testing.T) {
	for name, m := range samples(t) {
		t.Run(name, func(t *testing.T) { checkProperties(t, m) })
	}
	for name, s := range odd {
		t.Run(name, func(t *testing.T) { checkProperties(t, text(s)) })
	}
}

func TestSummaryJoinsItsSentences(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want string
	}{
		{[]string{"One here", "Two."}, "One here. Two."},
		{[]string{"He said “no”", "Why?", "So"}, "He said “no” Why? So"},
		{[]string{"今日は晴れ", "明日は雨。", "以上。"}, "今日は晴れ。明日は雨。以上。"},
		{[]string{"วันนี้ฝนตก", "พรุ่งนี้แดดออก"}, "วันนี้ฝนตก พรุ่งนี้แดดออก"},
	} {
		var list []*sentence
		for _, t := range c.in {
			list = append(list, &sentence{text: t})
		}
		if got := join(list); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestSentences(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"abbreviations":  {"Dr. Berg came at 9.30. He met Mr. A. Olsen, i.e. Anne's father. They left.", []string{"Dr. Berg came at 9.30.", "He met Mr. A. Olsen, i.e. Anne's father.", "They left."}},
		"german":         {"Wir treffen uns am 3. Mai um neun. Bringen Sie z. B. Brot mit. Das ist nicht viel.", []string{"Wir treffen uns am 3. Mai um neun.", "Bringen Sie z. B. Brot mit.", "Das ist nicht viel."}},
		"japanese":       {"今日は雨です。「傘はある？」と彼は聞いた。はい！", []string{"今日は雨です。", "「傘はある？」と彼は聞いた。", "はい！"}},
		"addresses":      {"See https://example.com/a?x=1&y=2 now. Or ask a.b@example.org today.", []string{"See https://example.com/a?x=1&y=2 now.", "Or ask a.b@example.org today."}},
		"quotations":     {"“Stop!” she said. “We are closed,” he added.", []string{"“Stop!” she said.", "“We are closed,” he added."}},
		"lowercase chat": {"where is it? Nobody knows", []string{"where is it?", "Nobody knows"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := split(c.text); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTitle(t *testing.T) {
	for in, want := range map[string]string{
		"The answer (see below).":   "The answer (see below)",
		"Prices went up by 20 %.":   "Prices went up by 20 %",
		"What is next?":             "What is next",
		"https://example.com/a?x=1": "https://example.com/a?x=1",
		strings.Repeat("abc ", 30):  strings.Repeat("abc ", 19) + "abc",
		strings.Repeat("会", 50):     strings.Repeat("会", 40),
		strings.Repeat("👩‍👩‍👧", 50): strings.Repeat("👩‍👩‍👧", 10),
		"?!":                        "?!",
	} {
		if got := shorten(in); got != want {
			t.Errorf("shorten(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestClassifies(t *testing.T) {
	for in, want := range map[string]string{
		"Wann öffnet die Bibliothek am Samstag?":                             "question",
		"متى يفتح المكتب غدا؟":                                               "question",
		"Когда откроется новый офис?":                                        "question",
		"明日の会議は何時からですか？":                                                     "question",
		"The library is open from nine to five and has forty reading desks.": "information",
	} {
		var c classification
		if err := json.Unmarshal(ask(t, "classification", text(in)).Content, &c); err != nil {
			t.Fatal(err)
		}
		if c.Label != want {
			t.Errorf("%q: got %+v, want %s", in, c, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	kind := func(ctx context.Context, r model.Request) (retry.Kind, error) {
		_, err := New().Generate(ctx, r)
		var e *model.Error
		if !errors.As(err, &e) {
			t.Fatalf("got %v, want a *model.Error", err)
		}
		return e.Kind, err
	}
	for name, m := range map[string][]model.Message{
		"none": nil, "empty": text(""), "white space": text(" \n\t\u00a0\u3000"), "invisible": text("\u200b\u200d\ufeff\u2060"),
		"marks": text("\u0301\u0301"), "controls": text("\x00\x1b"), "empty messages": {{Role: "user"}, {Role: "assistant", Content: " "}},
	} {
		if k, _ := kind(t.Context(), model.Request{Workload: "summary", Material: m}); k != retry.InvalidInput {
			t.Errorf("%s: got %s, want invalid_input", name, k)
		}
	}
	if k, _ := kind(t.Context(), model.Request{Workload: "poem", Material: text("Hello.")}); k != retry.InvalidInput {
		t.Errorf("unknown workload: got %s", k)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if k, err := kind(ctx, model.Request{Workload: "summary", Material: text("Hello.")}); k != retry.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	if k, _ := kind(ctx, model.Request{Workload: "summary", Material: text("Hello.")}); k != retry.Timeout {
		t.Errorf("deadline: got %s, want timeout", k)
	}
}

func TestUsage(t *testing.T) {
	r := ask(t, "summary", text("Two words. Zwei Wörter, 3!"))
	if got := *r.Usage.InputTokens; got != 5 {
		t.Errorf("got %d input tokens, want 5", got)
	}
	var s summary
	if err := json.Unmarshal(r.Content, &s); err != nil {
		t.Fatal(err)
	}
	want := countWords(s.Title) + countWords(s.Summary) + countWords(strings.Join(s.KeyPoints, " "))
	if got := *r.Usage.OutputTokens; got != int64(want) {
		t.Errorf("got %d output tokens, want %d", got, want)
	}
}

func TestOutputLimit(t *testing.T) {
	for _, w := range []string{"summary", "guidance"} {
		m := samples(t)["talk-en"]
		full := *ask(t, w, m).Usage.OutputTokens
		r, err := New().Generate(t.Context(), model.Request{Workload: w, Material: m, MaxOutputTokens: int(full) - 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := *r.Usage.OutputTokens; got >= full || got == 0 {
			t.Errorf("%s: got %d tokens, want fewer than %d", w, got, full)
		}
	}
}
