package locales

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/pelletier/go-toml/v2"
)

func unmarshal(data []byte, v any) error { return toml.Unmarshal(data, v) }

func mustLoad(t testing.TB) *Catalog {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// copyOfFiles is the embedded file system in a form that a test may damage.
func copyOfFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	copied := fstest.MapFS{}
	names, err := fs.Glob(files, "*.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		copied[name] = &fstest.MapFile{Data: data}
	}
	return copied
}

// without removes the line that defines key.
func without(data []byte, key string) []byte {
	var kept []string
	for line := range strings.SplitSeq(string(data), "\n") {
		if !strings.HasPrefix(line, key+" =") {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, "\n"))
}

// allArgs fills every placeholder there is.
func allArgs(seconds int) Args {
	return Args{"Seconds": seconds, "Count": seconds, "Attempt": 2, "Call": 2, "Max": 4, "Field": "input.text", "Limit": "1 MiB"}
}

func TestContractSentences(t *testing.T) {
	c := mustLoad(t)
	retrying := Args{"Seconds": 30, "Attempt": 2, "Max": 4}
	for _, tc := range []struct {
		lang Language
		key  string
		args Args
		want string
	}{
		{"en", "ai_service_busy_retrying", nil, "The AI service is busy. Retrying automatically…"},
		{"en", "ai_workload_retry_button", nil, "Try again"},
		{"en", "session_see_later", nil, "I’ll see this later"},
		{"en", "retrying_queue", retrying, "Retrying in 30s (attempt 2/4)…"},
		{"en", "retrying_call", Args{"Seconds": 1, "Call": 2, "Max": 3}, "Retrying in 1s (call 2/3)…"},
		{"en", "retrying_now", retrying, "Retrying now (attempt 2/4)…"},
		{"nb", "ai_service_busy_retrying", nil, "AI-tjenesten er opptatt. Prøver igjen automatisk…"},
		{"nb", "ai_workload_retry_button", nil, "Prøv igjen"},
		{"nb", "session_see_later", nil, "Jeg ser dette senere"},
		{"nb", "retrying_queue", retrying, "Prøver igjen om 30\u00a0s (forsøk 2/4)…"},
	} {
		got, used := c.Text(tc.lang, tc.key, tc.args)
		if got != tc.want || used != tc.lang {
			t.Errorf("Text(%s, %s) = %q, %s; want %q", tc.lang, tc.key, got, used, tc.want)
		}
	}
}

// The words of the apps for each workload in the two languages that the original
// apps speak, the error's beginning and the whole of the waiting.
func TestTheAppsWords(t *testing.T) {
	c := mustLoad(t)
	for key, want := range map[string][2]string{
		"ai_workload_summary_error":            {"We couldn’t create your session summary right now. You can try again, or come back to it later.", "Vi klarte ikke å lage sammendraget ditt akkurat nå. Du kan prøve igjen eller komme tilbake senere."},
		"ai_workload_guidance_error":           {"We couldn’t generate the guidance right now. You can try again, or come back to it later.", "Vi kunne ikke generere veiledningen akkurat nå. Du kan prøve igjen eller komme tilbake senere."},
		"ai_workload_classification_error":     {"We couldn’t classify your session right now. You can try again, or come back to it later.", "Vi klarte ikke å klassifisere økten din akkurat nå. Du kan prøve igjen eller komme tilbake senere."},
		"ai_service_busy_retrying":             {"The AI service is busy. Retrying automatically…", "AI-tjenesten er opptatt. Prøver igjen automatisk…"},
		"ai_workload_retry_button":             {"Try again", "Prøv igjen"},
		"session_see_later":                    {"I’ll see this later", "Jeg ser dette senere"},
		"session_summary_compiling":            {"Creating your session summary…", "Sammenstiller innsiktene…"},
		"session_summary_taking_longer":        {"Your summary is taking longer than usual. You don’t have to wait here; we’ll keep working on it.", "Sammendraget tar lengre tid enn vanlig. Du trenger ikke å vente her – vi jobber videre med det."},
		"session_guidance_compiling":           {"Creating your guidance…", "Lager veiledningen din…"},
		"session_guidance_taking_longer":       {"Your guidance is taking longer than usual. You don’t have to wait here; we’ll keep working on it.", "Veiledningen tar lengre tid enn vanlig. Du trenger ikke å vente her – vi jobber videre med den."},
		"session_classification_compiling":     {"Classifying your session…", "Klassifiserer økten din…"},
		"session_classification_taking_longer": {"Classifying your session is taking longer than usual. You don’t have to wait here; we’ll keep working on it.", "Klassifiseringen tar lengre tid enn vanlig. Du trenger ikke å vente her – vi jobber videre med den."},
	} {
		for i, lang := range []Language{"en", "nb"} {
			if got, _ := c.Text(lang, key, nil); got != want[i] {
				t.Errorf("%s, %s: %q, want %q", lang, key, got, want[i])
			}
		}
	}
}

func TestPluralForms(t *testing.T) {
	c := mustLoad(t)
	for lang, want := range map[Language]map[int]string{
		"en": {0: "0 seconds.", 1: "1 second.", 2: "2 seconds.", 100: "100 seconds."},
		"fr": {0: "0 seconde.", 1: "1 seconde.", 2: "2 secondes.", 25: "25 secondes.", 1_000_000: "1000000 de secondes."},
		"pl": {0: "0 sekund.", 1: "1 sekundę.", 2: "2 sekundy.", 3: "3 sekundy.", 5: "5 sekund.", 11: "11 sekund.", 12: "12 sekund.", 22: "22 sekundy.", 25: "25 sekund.", 100: "100 sekund."},
		"ar": {0: "الآن.", 1: "بعد ثانية واحدة.", 2: "بعد ثانيتين.", 3: "بعد 3 ثوانٍ.", 5: "بعد 5 ثوانٍ.", 11: "بعد 11 ثانية.", 12: "بعد 12 ثانية.", 22: "بعد 22 ثانية.", 25: "بعد 25 ثانية.", 100: "بعد 100 ثانية."},
		"ja": {1: "1秒後に次の試行を始めます。", 5: "5秒後に次の試行を始めます。"},
	} {
		for n, ending := range want {
			got, used := c.Plural(lang, "retry_in_seconds", n, nil)
			if !strings.HasSuffix(got, ending) || used != lang {
				t.Errorf("Plural(%s, %d) = %q in %s, want an end of %q", lang, n, got, used, ending)
			}
			// Seconds chooses as well as Count does, and so do numbers that came through JSON or as text.
			for _, value := range []any{n, int64(n), uint(n), float64(n), fmt.Sprint(n)} {
				if same, _ := c.Text(lang, "retry_in_seconds", Args{"Count": value}); n < 1000 && same != got {
					t.Errorf("Text(%s, Count: %T %v) = %q, want %q", lang, value, value, same, got)
				}
			}
			detail, _ := c.Text(lang, "problem_too_often_detail", Args{"Seconds": n})
			if plural, _ := c.Plural(lang, "problem_too_often_detail", n, nil); plural != detail {
				t.Errorf("%s, %d: Plural gives %q, Text with Seconds %q", lang, n, plural, detail)
			}
		}
	}
	if got, _ := c.Text("ar", "retrying_queue", Args{"Seconds": 3, "Attempt": 2, "Max": 4}); !strings.Contains(got, "3 ثوانٍ") {
		t.Errorf("retrying_queue does not take its form from Seconds: %q", got)
	}
}

func TestPluralLeavesArgsAlone(t *testing.T) {
	args := Args{"Attempt": 2, "Max": 4, "Seconds": 30}
	got, _ := mustLoad(t).Plural("en", "retrying_queue", 5, args)
	if want := "Retrying in 30s (attempt 2/4)…"; got != want {
		t.Errorf("got %q, want %q: a given Seconds is kept", got, want)
	}
	if want := (Args{"Attempt": 2, "Max": 4, "Seconds": 30}); !maps.Equal(want, args) {
		t.Errorf("args are now %v", args)
	}
}

// Every text in every language, for every number that has its own form somewhere.
func TestEveryTextRenders(t *testing.T) {
	c := mustLoad(t)
	for _, info := range c.Languages() {
		for _, key := range c.Keys() {
			for _, n := range []int{0, 1, 2, 3, 5, 11, 12, 22, 25, 100, 1_000_000} {
				got, used := c.Text(info.Tag, key, allArgs(n))
				if got == "" || got == key || used != info.Tag || strings.ContainsAny(got, "{}<>") {
					t.Errorf("Text(%s, %s, %d) = %q in %s", info.Tag, key, n, got, used)
				}
			}
		}
	}
}

func TestMissingKeyIsEnglishForThatKeyAlone(t *testing.T) {
	damaged := copyOfFiles(t)
	pl := damaged["active.pl.toml"]
	pl.Data = without(without(pl.Data, "reason_timeout"), "problem_too_often_detail")
	c, err := load(damaged)
	if err != nil {
		t.Fatal(err)
	}
	english := mustLoad(t)
	for key, args := range map[string]Args{"reason_timeout": nil, "problem_too_often_detail": {"Seconds": 1}} {
		want, _ := english.Text("en", key, args)
		if got, used := c.Text("pl", key, args); got != want || used != Default {
			t.Errorf("Text(pl, %s) = %q in %s, want %q in en", key, got, used, want)
		}
	}
	if got, used := c.Text("pl", "ai_workload_retry_button", nil); got != "Spróbuj ponownie" || used != "pl" {
		t.Errorf("the next key is %q in %s", got, used)
	}
	if got := c.Messages("pl")["reason_timeout"]; got != "The AI service took too long to answer." {
		t.Errorf("Messages has %q", got)
	}
}

func TestMissingPluralFormIsOther(t *testing.T) {
	damaged := copyOfFiles(t)
	pl := damaged["active.pl.toml"]
	few := `few = "Następna próba zacznie się za {{.Count}} sekundy.", `
	if !strings.Contains(string(pl.Data), few) {
		t.Fatal("the form to remove is not there")
	}
	pl.Data = []byte(strings.ReplaceAll(string(pl.Data), few, ""))
	c, err := load(damaged)
	if err != nil {
		t.Fatal(err)
	}
	if got, used := c.Plural("pl", "retry_in_seconds", 2, nil); got != "Następna próba zacznie się za 2 sekundy." || used != "pl" {
		t.Errorf("got %q in %s", got, used)
	}
}

func TestNeverEmptyNeverHalf(t *testing.T) {
	c := mustLoad(t)
	for _, lang := range []Language{"en", "nb", "xx", "", "nn", "zh-Hant-TW", "\x00", "*"} {
		for _, tc := range []struct {
			key  string
			args Args
		}{
			{"no_such_key", nil},
			{"retrying_queue", nil},                    // no placeholder given
			{"retrying_queue", Args{"Seconds": 30}},    // one of three
			{"retry_in_seconds", Args{"Count": nil}},   // prints as <nil> if let through
			{"problem_invalid_field_detail", Args{}},   // given, but empty
			{"problem_too_often_detail", Args{"x": 1}}, // given, but others
		} {
			got, used := c.Text(lang, tc.key, tc.args)
			if got != tc.key || used != Default {
				t.Errorf("Text(%q, %s, %v) = %q in %s, want the key", lang, tc.key, tc.args, got, used)
			}
		}
		// A count that is not a whole number still gives a sentence.
		for _, count := range []any{1.5, "soon", []int{1}, true, -1, 1e300, uint64(1 << 63)} {
			if got, _ := c.Text(lang, "retry_in_seconds", Args{"Count": count}); got == "" || got == "retry_in_seconds" {
				t.Errorf("Text(%q, Count: %v) = %q", lang, count, got)
			}
		}
	}
}

func TestCallerLearnsTheLanguage(t *testing.T) {
	c := mustLoad(t)
	for asked, want := range map[Language]Language{
		"de": "de", "nb": "nb", "no": "nb", "nn": "nb", "nb-NO": "nb", "zh-TW": "zh", "pt-PT": "pt", "xx": "en", "": "en",
	} {
		text, used := c.Text(asked, "ai_workload_retry_button", nil)
		if used != want {
			t.Errorf("Text(%q): language %s, want %s", asked, used, want)
		}
		if own, _ := c.Text(want, "ai_workload_retry_button", nil); text != own {
			t.Errorf("Text(%q) = %q, which is not the text of %s, %q", asked, text, want, own)
		}
	}
}

func TestMessagesAreThoseWithoutPlaceholders(t *testing.T) {
	c := mustLoad(t)
	messages := c.Messages("nb")
	withPlaceholders := 0
	for _, key := range c.Keys() {
		text, ok := messages[key]
		want, _ := c.Text("nb", key, nil)
		switch {
		case want == key:
			withPlaceholders++
			if ok {
				t.Errorf("%s needs placeholders and is listed as %q", key, text)
			}
		case text != want:
			t.Errorf("Messages()[%s] = %q, want %q", key, text, want)
		}
	}
	if len(messages)+withPlaceholders != len(c.Keys()) || withPlaceholders != 10 {
		t.Errorf("%d listed, %d with placeholders, %d keys", len(messages), withPlaceholders, len(c.Keys()))
	}
}

func TestCallersCannotChangeTheCatalog(t *testing.T) {
	c := mustLoad(t)
	c.Keys()[0] = "changed"
	c.Languages()[0].Name = "changed"
	c.Messages("en")["session_see_later"] = "changed"
	if c.Keys()[0] == "changed" || c.Languages()[0].Name == "changed" || c.Messages("en")["session_see_later"] == "changed" {
		t.Error("a caller's change shows in the catalog")
	}
	if c.Has("changed") || !c.Has("session_see_later") {
		t.Error("Has is wrong")
	}
}

func TestInfoAsJSON(t *testing.T) {
	got, err := json.Marshal(mustLoad(t).Languages()[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"tag":"ar","name":"العربية","direction":"rtl"}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLoadNamesTheFileAndTheFault(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		edit func(string) string // nil removes the file
		want string
	}{
		"missing file":         {"active.fi.toml", nil, "file does not exist"},
		"not TOML":             {"active.de.toml", func(s string) string { return s + "\n= = =" }, "toml"},
		"key twice":            {"active.de.toml", func(s string) string { return s + "\nsession_see_later = \"x\"" }, "session_see_later"},
		"nothing in it":        {"active.de.toml", func(string) string { return "# Deutsch" }, "no messages"},
		"empty":                {"active.de.toml", func(string) string { return "" }, "no messages"},
		"empty text":           {"active.sv.toml", func(string) string { return `session_see_later = ""` }, "session_see_later"},
		"blank text":           {"active.sv.toml", func(string) string { return `session_see_later = "  "` }, "session_see_later"},
		"no form other":        {"active.sv.toml", func(string) string { return `retry_in_seconds = { one = "x" }` }, "other"},
		"space at the end":     {"active.sv.toml", func(string) string { return `session_see_later = "x "` }, "space"},
		"key unknown":          {"active.ko.toml", func(s string) string { return "extra = \"x\"\n" + s }, "extra"},
		"placeholder unknown":  {"active.ko.toml", func(string) string { return `retrying_queue = "{{.Secnds}}"` }, "Secnds"},
		"placeholder unclosed": {"active.ko.toml", func(string) string { return `retrying_queue = "{{.Seconds}"` }, "{{.Name}}"},
		"template language":    {"active.en.toml", func(string) string { return `retrying_queue = "{{if .Seconds}}x{{end}}"` }, "{{.Name}}"},
		"nested table":         {"active.pt.toml", func(string) string { return "[reason]\ntimeout = \"x\"" }, "nested"},
		"not a text":           {"active.pt.toml", func(string) string { return "reason_timeout = 5" }, "unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := copyOfFiles(t)
			if tc.edit == nil {
				delete(damaged, tc.file)
			} else {
				damaged[tc.file] = &fstest.MapFile{Data: []byte(tc.edit(string(damaged[tc.file].Data)))}
			}
			_, err := load(damaged)
			if err == nil || !strings.Contains(err.Error(), tc.file) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not name %q and %q", err, tc.file, tc.want)
			}
		})
	}
}

func TestConcurrentUse(t *testing.T) {
	c := mustLoad(t)
	args := allArgs(3) // shared on purpose: rendering must not write to it
	want := make(map[Language]string)
	for _, info := range languages() {
		want[info.Tag], _ = mustLoad(t).Text(info.Tag, "retrying_queue", args)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, info := range c.Languages() {
				for _, key := range c.Keys() {
					c.Text(info.Tag, key, args)
				}
				if got, _ := c.Text(info.Tag, "retrying_queue", args); got != want[info.Tag] {
					t.Errorf("%s: got %q, want %q", info.Tag, got, want[info.Tag])
				}
				c.Plural(info.Tag, "retry_in_seconds", 2, args)
				c.Messages(info.Tag)
				c.Match("", string(info.Tag)+";q=0.8, *;q=0.1")
			}
		})
	}
	wg.Wait()
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustLoad(b)
	}
}

func BenchmarkText(b *testing.B) {
	c := mustLoad(b)
	b.ReportAllocs()
	for b.Loop() {
		c.Text("nb", "ai_service_busy_retrying", nil)
	}
}

func BenchmarkTextWithPlaceholders(b *testing.B) {
	c := mustLoad(b)
	args := Args{"Seconds": 30, "Attempt": 2, "Max": 4}
	b.ReportAllocs()
	for b.Loop() {
		c.Text("pl", "retrying_queue", args)
	}
}

func BenchmarkPlural(b *testing.B) {
	c := mustLoad(b)
	b.ReportAllocs()
	for b.Loop() {
		c.Plural("ar", "retry_in_seconds", 11, nil)
	}
}

func BenchmarkMessages(b *testing.B) {
	c := mustLoad(b)
	b.ReportAllocs()
	for b.Loop() {
		c.Messages("ja")
	}
}
