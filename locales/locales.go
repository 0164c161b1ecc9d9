// Package locales holds every text people read, in 16 languages, and picks the right one for a connection.
//
// The rest of Tidings stores and sends codes and numbers. A text is made here at the last moment, for the language of
// the connection that reads it, so one event can be read in Polish by one person and in Arabic by another.
//
// The texts live in active.<lang>.toml beside this file and are compiled into the program. English is the reference:
// its keys and placeholders are what the other files are measured against. Load reads all of them once; afterwards a
// Catalog never changes, so any number of goroutines may use it.
//
// # What happens when something is missing
//
// Nobody is ever sent an empty text.
//
//   - A key that one language lacks is taken from English, for that key alone. go-i18n reports this as a
//     MessageNotFoundErr beside the English text; the error is soft here, the text is what counts. The second result
//     of Text tells the caller which language it got, so that Content-Language can say so.
//   - A plural form that a language lacks is taken from its form "other".
//   - A key that no language has, or a message whose placeholders were not all given, is answered with the key
//     itself: plainly a code, never half a sentence.
//   - A language we do not have is English. Match never fails, whatever the header holds.
//
// The tests fail on each of the first three, so they can only happen to texts changed without running them.
//
// # Plural forms
//
// Args["Count"] picks the plural form and, when there is none, Args["Seconds"] does. Languages differ in which messages
// need forms: "30 s" reads the same for every number in most of them but not in Arabic. The caller passes the number
// and leaves that to the language's file.
package locales

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"github.com/pelletier/go-toml/v2"
	"golang.org/x/text/language"
)

//go:embed active.*.toml
var files embed.FS

// Language is the BCP 47 base tag of one of the languages, such as "nb".
type Language string

// Default is the language of callers whose own we do not have, and of single texts missing in theirs.
const Default Language = "en"

// Info describes a language to people who choose one.
type Info struct {
	Tag       Language `json:"tag"`
	Name      string   `json:"name"`      // what its speakers call it
	Direction string   `json:"direction"` // "ltr" or "rtl"
}

// Args are the values for a message's placeholders. Count, or else Seconds, picks the plural form.
type Args map[string]any

// Catalog is every text in every language. It is made by Load, never changes, and is safe for concurrent use.
type Catalog struct {
	// localizers has one entry per language. Making one costs 25 allocations, so they are made once.
	localizers map[Language]*i18n.Localizer
	keys       []string
	// placeholders holds the names each key's English text asks for. The other languages ask for no others.
	placeholders map[string][]string
}

// languages is a function because a package-level slice could be changed by anybody.
func languages() []Info {
	return []Info{
		{"ar", "العربية", "rtl"},
		{"da", "Dansk", "ltr"},
		{"de", "Deutsch", "ltr"},
		{"en", "English", "ltr"},
		{"es", "Español", "ltr"},
		{"fi", "Suomi", "ltr"},
		{"fr", "Français", "ltr"},
		{"it", "Italiano", "ltr"},
		{"ja", "日本語", "ltr"},
		{"ko", "한국어", "ltr"},
		{"nb", "Norsk bokmål", "ltr"},
		{"nl", "Nederlands", "ltr"},
		{"pl", "Polski", "ltr"},
		{"pt", "Português", "ltr"},
		{"sv", "Svenska", "ltr"},
		{"zh", "简体中文", "ltr"},
	}
}

// Load reads the texts of all languages. An error names the file and what is wrong with it: unreadable TOML, an empty
// text, a placeholder that is not of the form {{.Name}}, or a key or placeholder that English does not have.
func Load() (*Catalog, error) {
	return load(files)
}

// load is Load over any file system, so that tests can show it broken files.
func load(fsys fs.FS) (*Catalog, error) {
	bundle := i18n.NewBundle(language.Make(string(Default)))
	bundle.RegisterUnmarshalFunc("toml", toml.Unmarshal)
	c := &Catalog{
		localizers:   make(map[Language]*i18n.Localizer),
		placeholders: make(map[string][]string),
	}

	english, err := read(bundle, fsys, Default)
	if err != nil {
		return nil, err
	}
	for key, m := range english {
		c.placeholders[key] = placeholders(m)
	}
	c.keys = slices.Sorted(maps.Keys(english))

	for _, info := range languages() {
		messages, err := read(bundle, fsys, info.Tag)
		if err != nil {
			return nil, err
		}
		for key, m := range messages {
			if err := c.compare(key, m); err != nil {
				return nil, fmt.Errorf("%s: %w", path(info.Tag), err)
			}
		}
		c.localizers[info.Tag] = i18n.NewLocalizer(bundle, string(info.Tag))
	}
	return c, nil
}

func path(lang Language) string { return "active." + string(lang) + ".toml" }

// read adds a language's file to the bundle and returns its messages by key.
func read(bundle *i18n.Bundle, fsys fs.FS, lang Language) (map[string]*i18n.Message, error) {
	file, err := bundle.LoadMessageFileFS(fsys, path(lang))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path(lang), err)
	}
	if len(file.Messages) == 0 {
		return nil, fmt.Errorf("%s: no messages", path(lang))
	}
	messages := make(map[string]*i18n.Message, len(file.Messages))
	for _, m := range file.Messages {
		if err := check(m); err != nil {
			return nil, fmt.Errorf("%s: key %q: %w", path(lang), m.ID, err)
		}
		messages[m.ID] = m
	}
	return messages, nil
}

// check refuses a message that would come out empty or that uses more of the template language than a plain
// placeholder: translators write sentences, not programs.
func check(m *i18n.Message) error {
	if strings.Contains(m.ID, ".") {
		return errors.New("nested tables are not used; a message is a string or a table of plural forms")
	}
	if strings.TrimSpace(m.Other) == "" {
		return errors.New(`no text (form "other")`)
	}
	for form, text := range forms(m) {
		if _, ok := names(text); !ok {
			return fmt.Errorf("form %q: a placeholder is written {{.Name}}", form)
		}
		if text != strings.TrimSpace(text) {
			return fmt.Errorf("form %q: space at the start or end", form)
		}
	}
	return nil
}

// compare refuses keys and placeholders that English does not have: no caller would ever fill them.
func (c *Catalog) compare(key string, m *i18n.Message) error {
	known, ok := c.placeholders[key]
	if !ok {
		return fmt.Errorf("key %q is not in %s", key, path(Default))
	}
	for _, name := range placeholders(m) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("key %q: placeholder %q is not in %s", key, name, path(Default))
		}
	}
	return nil
}

// forms returns a message's texts by CLDR plural form, only those it has.
func forms(m *i18n.Message) map[string]string {
	all := map[string]string{"zero": m.Zero, "one": m.One, "two": m.Two, "few": m.Few, "many": m.Many, "other": m.Other}
	maps.DeleteFunc(all, func(_, text string) bool { return text == "" })
	return all
}

// placeholders returns the names used by any form of the message, sorted.
func placeholders(m *i18n.Message) []string {
	var all []string
	for _, text := range forms(m) {
		found, _ := names(text)
		all = append(all, found...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// names returns the placeholders in a text, in order. ok is false when anything in it is not plainly {{.Name}}.
func names(text string) (found []string, ok bool) {
	for {
		before, rest, more := strings.Cut(text, "{{")
		if strings.Contains(before, "}}") {
			return found, false
		}
		if !more {
			return found, true
		}
		name, after, closed := strings.Cut(rest, "}}")
		name, dotted := strings.CutPrefix(name, ".")
		if !closed || !dotted || name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isLetter(r) }) {
			return found, false
		}
		found = append(found, name)
		text = after
	}
}

func isLetter(r rune) bool { return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' }

// Languages lists the languages in alphabetical order of their tags.
func (c *Catalog) Languages() []Info { return languages() }

// Has tells whether there is a text for key.
func (c *Catalog) Has(key string) bool {
	_, ok := c.placeholders[key]
	return ok
}

// Keys lists every key, sorted.
func (c *Catalog) Keys() []string { return slices.Clone(c.keys) }

// Text renders key in lang. A key missing there is rendered in English, a key missing everywhere (or one whose
// placeholders are not all in args) is returned as it is. used tells which language the text is in.
func (c *Catalog) Text(lang Language, key string, args Args) (text string, used Language) {
	required, ok := c.placeholders[key]
	if !ok {
		return key, Default
	}
	for _, name := range required {
		// go-i18n would print "<no value>" in its place and report no error.
		if args[name] == nil {
			return key, Default
		}
	}
	localizer, ok := c.localizers[lang]
	if !ok {
		lang = c.Match(string(lang), "")
		localizer = c.localizers[lang]
	}
	text, err := localizer.Localize(&i18n.LocalizeConfig{
		MessageID:    key,
		TemplateData: map[string]any(args),
		PluralCount:  pluralCount(args),
	})
	if text == "" {
		return key, Default
	}
	var missing *i18n.MessageNotFoundErr
	if err != nil && errors.As(err, &missing) {
		return text, Default
	}
	return text, lang
}

// Plural is Text for a number: it sets Count and PluralCount to count, and Seconds where args has none, without
// touching the caller's args.
func (c *Catalog) Plural(lang Language, key string, count int, args Args) (string, Language) {
	all := make(Args, len(args)+3)
	all["Seconds"] = count
	maps.Copy(all, args)
	all["Count"], all["PluralCount"] = count, count
	return c.Text(lang, key, all)
}

// pluralCount finds the number that picks the plural form. It returns nil, which means the form "other", for anything
// that is not a whole number: go-i18n would answer such a count, and any unsigned one, with no text at all.
func pluralCount(args Args) any {
	count := args["Count"]
	if count == nil {
		count = args["Seconds"]
	}
	if n, ok := count.(int); ok {
		return n
	}
	switch v := reflect.ValueOf(count); {
	case v.CanInt():
		return v.Int()
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return int64(v.Uint())
	case v.CanFloat() && v.Float() == math.Trunc(v.Float()) && math.Abs(v.Float()) < 1<<53: // came through JSON
		return int64(v.Float())
	case v.Kind() == reflect.String:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
	}
	return nil
}

// Messages returns every text that needs no placeholder, rendered in lang, by key.
func (c *Catalog) Messages(lang Language) map[string]string {
	messages := make(map[string]string, len(c.keys))
	for _, key := range c.keys {
		if len(c.placeholders[key]) == 0 {
			messages[key], _ = c.Text(lang, key, nil)
		}
	}
	return messages
}
