package model

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

	"github.com/tidings/tidings/jobs/retry"
)

var updateLocal = flag.Bool("update-local", false, "rewrite testdata/local/*.golden.json")

var localWorkloads = []string{"summary", "guidance", "classification"}

// samples reads testdata/local: .txt is one text, .json a list of messages.
func samples(t testing.TB) map[string][]Message {
	t.Helper()
	out := map[string][]Message{}
	files, err := filepath.Glob("testdata/local/*")
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
		case strings.HasSuffix(name, ".golden.json"):
		case strings.HasSuffix(name, ".json"):
			var m []Message
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			out[strings.TrimSuffix(name, ".json")] = m
		default:
			out[strings.TrimSuffix(name, ".txt")] = []Message{{Content: string(b)}}
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d samples found", len(out))
	}
	return out
}

func text(s string) []Message { return []Message{{Content: s}} }

// ask fails the test if the model does.
func ask(t testing.TB, workload string, m []Message) Response {
	t.Helper()
	r, err := NewLocal().Generate(t.Context(), Request{Workload: workload, Material: m})
	if err != nil {
		t.Fatalf("%s: %v", workload, err)
	}
	return r
}

func TestLocalGolden(t *testing.T) {
	for name, material := range samples(t) {
		t.Run(name, func(t *testing.T) {
			all := map[string]json.RawMessage{}
			for _, w := range localWorkloads {
				all[w] = ask(t, w, material).Content
			}
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(all); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata/local", name+".golden.json")
			if *updateLocal {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got %s\nwant %s\nif the new output is better, run with -update-local", got.Bytes(), want)
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

// occurs compares as a reader does: white space and a title's capital aside.
func occurs(quote string, material []Message) bool {
	var all strings.Builder
	for _, m := range material {
		all.WriteString(" " + clean(m.Content))
	}
	// Marks at line starts are taken off, and code fences are no text.
	plain := func(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }
	return strings.Contains(plain(all.String()), plain(quote))
}

// checkProperties holds for every input.
func checkProperties(t *testing.T, material []Message) {
	t.Helper()
	checkTitle := func(title string) {
		t.Helper()
		if strings.TrimSpace(title) == "" || !utf8.ValidString(title) || width(title) > titleWidth || strings.Contains(title, "\n") {
			t.Errorf("bad title %q, width %d", title, width(title))
		}
		if last, _ := utf8.DecodeLastRuneInString(title); strings.ContainsAny(title, "abcdefghijklmnopqrstuvwxyz") && strings.ContainsRune(".,;:!?-–—。、，؟", last) {
			t.Errorf("title %q ends in punctuation", title)
		}
		if !occurs(title, material) {
			t.Errorf("title %q is not in the material", title)
		}
	}
	quoted := func(s string, most int) {
		t.Helper()
		if s == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > most {
			t.Errorf("bad quotation %q of %d runes", s, utf8.RuneCountInString(s))
		}
		if !occurs(s, material) {
			t.Errorf("%q is not in the material", s)
		}
	}
	strict := func(r Response, out any) {
		t.Helper()
		dec := json.NewDecoder(bytes.NewReader(r.Content))
		dec.DisallowUnknownFields()
		if err := dec.Decode(out); err != nil {
			t.Errorf("%s: %v", r.Content, err)
		}
		if r.Model != LocalName || r.Usage.InputTokens == nil || r.Usage.OutputTokens == nil || r.Usage.CachedTokens != nil {
			t.Errorf("got model %q, usage %+v", r.Model, r.Usage)
		}
	}

	var s summaryOutput
	strict(ask(t, "summary", material), &s)
	checkTitle(s.Title)
	if s.Summary == "" || utf8.RuneCountInString(s.Summary) > 4*(maxSentence+2) || len(s.KeyPoints) < 1 || len(s.KeyPoints) > 5 {
		t.Errorf("bad summary %+v", s)
	}
	for _, p := range s.KeyPoints {
		quoted(p, maxSentence)
	}

	var g guidanceOutput
	strict(ask(t, "guidance", material), &g)
	if len(g.Steps) < 1 || len(g.Steps) > 8 {
		t.Errorf("%d steps", len(g.Steps))
	}
	for _, st := range g.Steps {
		checkTitle(st.Title)
		quoted(st.Detail, maxDetail)
	}

	var c classificationOutput
	strict(ask(t, "classification", material), &c)
	if !slices.Contains(localLabels[:], c.Label) || c.Confidence < 0 || c.Confidence > 0.9 {
		t.Errorf("bad classification %+v", c)
	}

	// The summary is made of sentences in the order of the material.
	d := read(material, "")
	ranked := d.rank()
	for _, list := range [][]*sentence{pick(ranked, nil, 4, 0.3), pick(ranked, ranked[:1], 5, 0)} {
		if !slices.IsSortedFunc(list, inOrder) {
			t.Error("sentences are out of order")
		}
		for i, a := range list {
			quoted(a.text(), maxSentence)
			for _, b := range list[i+1:] {
				if likeness(a, b) > 0.7 {
					t.Errorf("%q and %q say the same", a.text(), b.text())
				}
			}
		}
	}
	for _, w := range localWorkloads {
		if a, b := ask(t, w, material), ask(t, w, material); !bytes.Equal(a.Content, b.Content) {
			t.Errorf("%s: got %s, then %s", w, a.Content, b.Content)
		}
	}
}

func TestLocalProperties(t *testing.T) {
	for name, m := range samples(t) {
		t.Run(name, func(t *testing.T) { checkProperties(t, m) })
	}
	for name, s := range odd {
		t.Run(name, func(t *testing.T) { checkProperties(t, text(s)) })
	}
}

func TestLocalSummaryJoinsItsSentences(t *testing.T) {
	s := func(text string) *sentence { return &sentence{block: &block{text: text}, end: len(text)} }
	for _, c := range []struct {
		in   []string
		want string
	}{
		{[]string{"One here", "Two."}, "One here. Two."},
		{[]string{"He said “no”", "Why?", "So"}, "He said “no”. Why? So"},
		{[]string{"今日は晴れ", "明日は雨。", "以上。"}, "今日は晴れ。明日は雨。以上。"},
		{[]string{"오늘은 맑음", "내일은 비."}, "오늘은 맑음. 내일은 비."},
		{[]string{"วันนี้ฝนตก", "พรุ่งนี้แดดออก"}, "วันนี้ฝนตก พรุ่งนี้แดดออก"},
	} {
		var list []*sentence
		for _, t := range c.in {
			list = append(list, s(t))
		}
		if got := join(list); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestLocalCleans(t *testing.T) {
	for in, want := range map[string]string{
		"a\u202eb\u202cc \u2066d\u2069 \u200ee": "abc d \u200ee",
		"a\r\nb\rc\u2028d\u0085e\vf":            "a\nb\nc\nd\ne\nf",
		"a\x00b\x1bc\td\u00a0e\u3000f":          "a b c d e f",
		"\xff\xfea \xc3":                        "\uFFFD\uFFFDa \uFFFD",
		"\ufeffa\u00adb":                        "ab",
		"👩\u200d👧 می\u200cخواهم":                "👩\u200d👧 می\u200cخواهم",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestLocalSentences(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"abbreviations":  {"Dr. Berg came at 9.30. He met Mr. A. Olsen, i.e. Anne's father.", []string{"Dr. Berg came at 9.30.", "He met Mr. A. Olsen, i.e. Anne's father."}},
		"german":         {"Wir treffen uns am 3. Mai um neun. Bringen Sie z. B. Brot mit. Das ist nicht viel.", []string{"Wir treffen uns am 3. Mai um neun.", "Bringen Sie z. B. Brot mit.", "Das ist nicht viel."}},
		"the end is I":   {"It was only I. They left.", []string{"It was only I.", "They left."}},
		"japanese":       {"今日は雨です。「傘はある？」と彼は聞いた。はい！", []string{"今日は雨です。", "「傘はある？」と彼は聞いた。", "はい！"}},
		"wrapped lines":  {"The meeting was moved to the large room on the second\nfloor because of the noise.\nBring a chair.", []string{"The meeting was moved to the large room on the second floor because of the noise.", "Bring a chair."}},
		"loose marks":    {"Stop now! !! Then go.", []string{"Stop now! !!", "Then go."}},
		"lists":          {"Buy:\n- milk\n2) eggs\n① bread\n一、茶", []string{"Buy:", "milk", "eggs", "bread", "茶"}},
		"no list":        {"3.5 litres\n-5 degrees", []string{"3.5 litres", "-5 degrees"}},
		"lowercase chat": {"where is it? i can't find it", []string{"where is it?", "i can't find it"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range read(text(c.text), "").sentences {
				got = append(got, s.text())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLocalTranscript(t *testing.T) {
	const chat = "Kari: Shall we ship it?\nJo: Not yet.\nThe tests fail.\nKari: Then on Monday.\nJo: Fine."
	d := read(text(chat), "")
	if len(d.turns) != 4 || d.turns[1].speaker != "Jo" || len(d.turns[1].blocks) != 2 {
		t.Errorf("got turns %+v", d.turns)
	}
	for name, s := range map[string]string{
		"settings":  "Name: Tidings\nPort: 80\nMode: dev\nLevel: info",
		"a URL":     "https://a.example\nhttps://b.example\nhttps://a.example\nhttps://b.example",
		"too short": "Kari: Hi.\nJo: Hi.",
	} {
		if d := read(text(s), ""); len(d.turns) != 1 {
			t.Errorf("%s: got %d turns, want 1", name, len(d.turns))
		}
	}
}

func TestLocalTitle(t *testing.T) {
	for in, want := range map[string]string{
		"Hi there, the printer in room 4 prints only black pages!": "The printer in room 4 prints only black pages",
		"So, what is next?":        "What is next",
		"iPhone sync fails.":       "iPhone sync fails",
		"Subject: Offsite in June": "Offsite in June",
		"The answer (see below).":  "The answer (see below)",
		"“The answer is here":      "The answer is here",
		"Prices went up by 20 %.":  "Prices went up by 20 %",
		"We decided to check the size of every backup from now on and to raise an alarm when the disk is full.": "We decided to check the size of every backup",
	} {
		if got := shorten(in, lexicons()["en"]); got != want {
			t.Errorf("shorten(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestLocalLanguage(t *testing.T) {
	for name, m := range samples(t) {
		want := name
		if i := strings.IndexByte(name, '-'); i >= 0 {
			want = name[i+1:]
		}
		got := ""
		if lex := read(m, "").lex; lex != nil {
			got = lex.tag
		}
		if want == "th" || want == "ru" {
			want = "" // none of the sixteen
		}
		if got != want {
			t.Errorf("%s: got language %q, want %q", name, got, want)
		}
	}
	// Chance hits are no language, and every text has topics.
	for name, s := range map[string]string{
		"Russian":  "Новый офис откроется в сентябре. Там будут работать сорок человек.",
		"Turkish":  "Kütüphane pazartesi günü yeni binasına taşındı. Öğrenciler akşam saatlerinde de kitap ödünç alabilecek.",
		"hiragana": odd["hiragana"],
	} {
		d := read(text(s), "")
		if d.lex != nil && name != "hiragana" {
			t.Errorf("%s: got language %q, want none", name, d.lex.tag)
		}
		if len(d.df) < 5 {
			t.Errorf("%s: got %d topics", name, len(d.df))
		}
	}
	// A sentence that is both: the hint decides.
	const both = "Kaffe og te er på bordet"
	for _, hint := range []string{"da", "nb", "no-NO"} {
		want := map[string]string{"da": "da"}[hint]
		if want == "" {
			want = "nb"
		}
		if lex := read(text(both), hint).lex; lex == nil || lex.tag != want {
			t.Errorf("hint %q: got %+v", hint, lex)
		}
	}
}

func TestLocalClassifies(t *testing.T) {
	for in, want := range map[string]string{
		"how do i change my password":                                        "question",
		"Wann öffnet die Bibliothek am Samstag?":                             "question",
		"明日の会議は何時からですか。":                                                     "question",
		"متى يفتح المكتب غدا؟":                                               "question",
		"Когда откроется новый офис?":                                        "question",
		"The app crashes when I open a large file. Nothing helps.":           "problem",
		"The app crashes on start. I use version 4.2 on an old laptop.":      "problem",
		"Should we keep the old logo? We agreed to keep it.":                 "decision",
		"Appen krasjer hver gang jeg åpner kartet.":                          "problem",
		"登录页面打不开，一直显示错误。":                                                    "problem",
		"Kannst du mir bitte die Rechnung für März schicken?":                "request",
		"Could you please send me the contract by Monday?":                   "request",
		"Nous avons décidé de garder le logo actuel.":                        "decision",
		"Vi ble enige om å flytte møtet til torsdag.":                        "decision",
		"The library is open from nine to five and has forty reading desks.": "information",
	} {
		var c classificationOutput
		if err := json.Unmarshal(ask(t, "classification", text(in)).Content, &c); err != nil {
			t.Fatal(err)
		}
		if c.Label != want {
			t.Errorf("%q: got %+v, want %s", in, c, want)
		}
	}
}

func TestLocalRefuses(t *testing.T) {
	kind := func(ctx context.Context, r Request) (retry.Kind, error) {
		_, err := NewLocal().Generate(ctx, r)
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("got %v, want a *Error", err)
		}
		return e.Kind, err
	}
	for name, m := range map[string][]Message{
		"none": nil, "empty": text(""), "white space": text(" \n\t\u00a0\u3000"), "invisible": text("\u200b\u200d\ufeff\u2060"),
		"marks": text("\u0301\u0301"), "controls": text("\x00\x1b"), "empty messages": {{Role: "user"}, {Role: "assistant", Content: " "}},
	} {
		if k, _ := kind(t.Context(), Request{Workload: "summary", Material: m}); k != retry.InvalidInput {
			t.Errorf("%s: got %s, want invalid_input", name, k)
		}
	}
	if k, _ := kind(t.Context(), Request{Workload: "poem", Material: text("Hello.")}); k != retry.InvalidInput {
		t.Errorf("unknown workload: got %s", k)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if k, err := kind(ctx, Request{Workload: "summary", Material: text("Hello.")}); k != retry.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	if k, _ := kind(ctx, Request{Workload: "summary", Material: text("Hello.")}); k != retry.Timeout {
		t.Errorf("deadline: got %s, want timeout", k)
	}
}

func TestLocalUsage(t *testing.T) {
	r := ask(t, "summary", text("Two words. Zwei Wörter, 3!"))
	if got := *r.Usage.InputTokens; got != 5 {
		t.Errorf("got %d input tokens, want 5", got)
	}
	var s summaryOutput
	if err := json.Unmarshal(r.Content, &s); err != nil {
		t.Fatal(err)
	}
	want := countWords(s.Title) + countWords(s.Summary) + countWords(strings.Join(s.KeyPoints, " "))
	if got := *r.Usage.OutputTokens; got != int64(want) {
		t.Errorf("got %d output tokens, want %d", got, want)
	}
}

func TestLocalOutputLimit(t *testing.T) {
	for _, w := range []string{"summary", "guidance"} {
		m := samples(t)["talk-en"]
		full := *ask(t, w, m).Usage.OutputTokens
		r, err := NewLocal().Generate(t.Context(), Request{Workload: w, Material: m, MaxOutputTokens: int(full) - 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := *r.Usage.OutputTokens; got >= full || got == 0 {
			t.Errorf("%s: got %d tokens, want fewer than %d", w, got, full)
		}
	}
}
