package locales

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

// contractKeys spells out what contract.md asks for, apart from any file, so that a key deleted everywhere is noticed.
func contractKeys() []string {
	keys := strings.Fields(`
		ai_workload_summary_error ai_workload_guidance_error ai_workload_classification_error ai_service_busy_retrying
		ai_workload_retry_button session_see_later session_summary_compiling session_summary_taking_longer
		session_guidance_compiling session_guidance_taking_longer session_classification_compiling
		session_classification_taking_longer session_checking_connection
		retrying_queue retrying_call retrying_now retrying_call_now retry_in_seconds`)
	for _, reason := range strings.Fields(`
		overloaded rate_limited unavailable timeout network auth quota misconfigured invalid_input invalid_output stream_interrupted
		worker_lost internal storage breaker_open retry_budget call_allowance attempts retries_disabled
		dependency_paused queue_paused no_worker draining run_by_operator run_by_user cancelled removed deadline`) {
		keys = append(keys, "reason_"+reason)
	}
	for _, outcome := range strings.Fields(`
		completed failed deadline_exceeded admission_denied retries_exhausted outcome_unknown`) {
		keys = append(keys, "outcome_"+outcome)
	}
	for _, status := range strings.Fields(`queued processing retrying completed error idle`) {
		keys = append(keys, "status_"+status)
	}
	for _, code := range strings.Fields(`
		invalid_session_id invalid_body invalid_field body_too_large input_too_long unsupported_media_type invalid_idempotency_key
		idempotency_key_reused unknown_workload not_found no_document method_not_allowed unauthorized cross_site unknown_host forbidden
		job_running not_retryable already_completed input_gone too_often wait_required queue_full admission_denied
		too_many_streams too_many_live_jobs storage_unavailable draining simulate_only_in_dev invalid_query
		attempt_conflict claim_lost unknown_failure_type not_resolvable not_acceptable internal`) {
		keys = append(keys, "problem_"+code+"_title", "problem_"+code+"_detail")
	}
	slices.Sort(keys)
	return keys
}

// messagesOf reads one language's own file, with no fallback in between.
func messagesOf(t *testing.T, lang Language) map[string]*i18n.Message {
	t.Helper()
	bundle := i18n.NewBundle(language.English)
	bundle.RegisterUnmarshalFunc("toml", unmarshal)
	messages, err := read(bundle, files, lang)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// difference tells what got lacks and has too much of, or nothing when both hold the same.
func difference(want, got []string) string {
	var b strings.Builder
	for _, s := range want {
		if !slices.Contains(got, s) {
			fmt.Fprintf(&b, "  lacks %s\n", s)
		}
	}
	for _, s := range got {
		if !slices.Contains(want, s) {
			fmt.Fprintf(&b, "  has %s, which is not wanted\n", s)
		}
	}
	if b.Len() == 0 && !slices.Equal(want, got) {
		fmt.Fprintf(&b, "  order is %v, want %v\n", got, want)
	}
	return b.String()
}

// eachText calls visit with every single text there is.
func eachText(t *testing.T, visit func(lang Language, key, form, text string)) {
	t.Helper()
	for _, info := range languages() {
		for key, m := range messagesOf(t, info.Tag) {
			for form, text := range forms(m) {
				visit(info.Tag, key, form, text)
			}
		}
	}
}

// numbersByForm asks go-i18n's own CLDR rules which form each number takes, with a message that names its forms.
func numbersByForm(t *testing.T, lang Language) map[string][]int {
	t.Helper()
	bundle := i18n.NewBundle(language.English)
	bundle.MustAddMessages(language.Make(string(lang)), &i18n.Message{
		ID: "form", Zero: "zero", One: "one", Two: "two", Few: "few", Many: "many", Other: "other",
	})
	localizer := i18n.NewLocalizer(bundle, string(lang))
	byForm := map[string][]int{"other": nil} // every rule has it; fractions take it where no whole number does
	numbers := []int{1_000, 1_000_000, 2_000_000}
	for n := range 301 {
		numbers = append(numbers, n)
	}
	for _, n := range numbers {
		form, err := localizer.Localize(&i18n.LocalizeConfig{MessageID: "form", PluralCount: n})
		if err != nil {
			t.Fatal(err)
		}
		byForm[form] = append(byForm[form], n)
	}
	return byForm
}

func TestSixteenLanguages(t *testing.T) {
	var tags []string
	for _, info := range languages() {
		tags = append(tags, string(info.Tag))
		if info.Name == "" {
			t.Errorf("%s has no name", info.Tag)
		}
		want := "ltr"
		if info.Tag == "ar" {
			want = "rtl"
		}
		if info.Direction != want {
			t.Errorf("%s: direction = %q, want %q", info.Tag, info.Direction, want)
		}
	}
	want := strings.Fields("ar da de en es fi fr it ja ko nb nl pl pt sv zh")
	if diff := difference(want, tags); diff != "" {
		t.Error(diff)
	}
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(want) {
		t.Errorf("%d files are embedded, want %d", len(entries), len(want))
	}
}

func TestEveryLanguageHasEveryKey(t *testing.T) {
	want := contractKeys()
	for _, info := range languages() {
		got := slices.Sorted(maps.Keys(messagesOf(t, info.Tag)))
		if diff := difference(want, got); diff != "" {
			t.Errorf("%s, contract against file:\n%s", path(info.Tag), diff)
		}
	}
}

// A form that stands for one number alone may spell it out ("in two seconds" is one word in Arabic). All others need
// the number, or one text would claim the same for several.
func TestEveryLanguageHasTheSamePlaceholders(t *testing.T) {
	english := messagesOf(t, Default)
	for _, info := range languages() {
		numbers := numbersByForm(t, info.Tag)
		for key, m := range messagesOf(t, info.Tag) {
			reference, ok := english[key]
			if !ok {
				t.Errorf("%s: %s is not in %s", path(info.Tag), key, path(Default))
				continue
			}
			want := placeholders(reference)
			for form, text := range forms(m) {
				got := placeholders(&i18n.Message{Other: text})
				spelled := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return name == "Seconds" || name == "Count" })
				if form != "other" && len(numbers[form]) == 1 && slices.Equal(spelled, got) {
					continue
				}
				if diff := difference(want, got); diff != "" {
					t.Errorf("%s: %s, form %q:\n%s", path(info.Tag), key, form, diff)
				}
			}
		}
	}
}

func TestEveryLanguageHasItsPluralForms(t *testing.T) {
	english := messagesOf(t, Default)
	for _, info := range languages() {
		required := slices.Sorted(maps.Keys(numbersByForm(t, info.Tag)))
		for key, m := range messagesOf(t, info.Tag) {
			got := slices.Sorted(maps.Keys(forms(m)))
			if english[key] != nil && len(forms(english[key])) == 1 && len(got) == 1 {
				continue // needs no forms: no count, or an abbreviation
			}
			if diff := difference(required, got); diff != "" {
				t.Errorf("%s: %s, forms by CLDR against file:\n%s", path(info.Tag), key, diff)
			}
		}
	}
}

// The probe above must not agree with the files only because it finds nothing.
func TestPluralRulesAreKnown(t *testing.T) {
	for lang, want := range map[Language][]string{
		"ar": {"few", "many", "one", "other", "two", "zero"},
		"pl": {"few", "many", "one", "other"},
		"fr": {"many", "one", "other"},
		"nb": {"one", "other"},
		"ja": {"other"},
	} {
		got := slices.Sorted(maps.Keys(numbersByForm(t, lang)))
		if diff := difference(want, got); diff != "" {
			t.Errorf("%s:\n%s", lang, diff)
		}
	}
}

// identicalAllowed are texts that are spelled alike in English and in another language, as "lang key".
func identicalAllowed() []string { return nil }

func TestNoEnglishLeftInAnotherLanguage(t *testing.T) {
	english := messagesOf(t, Default)
	giveaways := strings.Fields("the and please try again couldn’t has right now you your this with not yet")
	eachText(t, func(lang Language, key, form, text string) {
		if lang == Default || slices.Contains(identicalAllowed(), fmt.Sprintf("%s %s", lang, key)) {
			return
		}
		if reference, ok := english[key]; ok && text == forms(reference)[form] {
			t.Errorf("%s: %s is the English text %q", path(lang), key, text)
		}
		words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && r != '’' })
		found := 0
		for _, word := range giveaways {
			if slices.Contains(words, word) {
				found++
			}
		}
		// One may be a word of that language too ("has" in Spanish).
		if found > 1 {
			t.Errorf("%s: %s looks English: %q", path(lang), key, text)
		}
	})
}

func TestTextsAreInTheirScript(t *testing.T) {
	scripts := map[Language][]*unicode.RangeTable{
		"ar": {unicode.Arabic},
		"ja": {unicode.Hiragana, unicode.Katakana, unicode.Han},
		"ko": {unicode.Hangul},
		"zh": {unicode.Han},
	}
	eachText(t, func(lang Language, key, _, text string) {
		want, ok := scripts[lang]
		if !ok {
			want = []*unicode.RangeTable{unicode.Latin}
		}
		letters, own := 0, 0
		found, _ := names(text)
		for _, name := range found {
			text = strings.ReplaceAll(text, "{{."+name+"}}", "")
		}
		for _, r := range text {
			if unicode.IsLetter(r) {
				letters++
				if unicode.In(r, want...) {
					own++
				}
			}
		}
		// Names such as "application/json" stay Latin everywhere, so a quarter is enough.
		if letters == 0 || own*4 < letters {
			t.Errorf("%s: %s is not in the script of its language: %q", path(lang), key, text)
		}
	})
}

func TestTypography(t *testing.T) {
	eachText(t, func(lang Language, key, _, text string) {
		for _, bad := range []string{`"`, `'`, "...", "  ", "\n", "!", " …"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: %s contains %q: %q", path(lang), key, bad, text)
			}
		}
		end := text[len(text)-1:]
		label := strings.HasSuffix(key, "_title") || strings.HasPrefix(key, "status_") ||
			key == "ai_workload_retry_button" || key == "session_see_later"
		sentence := end == "." || strings.HasSuffix(text, "…") || strings.HasSuffix(text, "。")
		if label == sentence {
			t.Errorf("%s: %s: a label has no full stop and a sentence has one: %q", path(lang), key, text)
		}
	})
	for _, info := range languages() {
		raw, err := files.ReadFile(path(info.Tag))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(raw, []byte("# ")) {
			t.Errorf("%s does not begin with a comment on language and style of address", path(info.Tag))
		}
	}
}
