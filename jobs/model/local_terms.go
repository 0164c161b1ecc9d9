package model

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// document is the material, read: sentences in order with what they are about.
type document struct {
	sentences []*sentence
	turns     []turn
	lex       *lexicon // of the language found; nil if none of ours
	words     int
	answered  bool  // a user speaks with someone who answers
	df        []int // per term, the sentences that hold it
}

// script is what decides how words are told apart.
type script int

const (
	spaced    script = iota // blanks between words
	han                     // no blanks; two characters are about a word
	hiragana                // no blanks; in Japanese mostly grammar
	katakana                // the segmenter keeps these words whole
	hangul                  // blanks, but endings grow on each word
	spaceless               // no blanks between words, letters combine
)

func scriptOf(r rune) script {
	switch {
	case r < 0xE00:
		return spaced
	case r >= 0xAC00 && r <= 0xD7A3:
		return hangul
	case r >= 0x3041 && r <= 0x309F:
		return hiragana
	case r >= 0x30A0 && r <= 0x30FF:
		return katakana
	case unicode.Is(unicode.Han, r):
		return han
	case isSpaceless(r):
		return spaceless
	}
	return spaced
}

func isSpaceless(r rune) bool {
	return r >= 0xE00 && r <= 0xEFF || r >= 0x1000 && r <= 0x109F || r >= 0x1780 && r <= 0x17FF
}

// language finds the lexicon by script, then by whose small words are met most
// often among the first words. A hint (the request's language) decides a tie,
// as between Norwegian and Danish.
func language(turns []turn, hint string) *lexicon {
	all := lexicons()
	hint, _, _ = strings.Cut(strings.ToLower(hint), "-")
	if hint == "no" || hint == "nn" {
		hint = "nb"
	}
	seen := map[string]int{}
	var scripts [spaceless + 1]int
	arabic, total := 0, 0
sample:
	for _, t := range turns {
		for _, b := range t.blocks {
			for it := words.FromString(b.text[:min(len(b.text), 1<<13)]); it.Next(); {
				w := it.Value()
				r, _ := utf8.DecodeRuneInString(w)
				if !unicode.IsLetter(r) {
					continue
				}
				scripts[scriptOf(r)]++
				if unicode.Is(unicode.Arabic, r) {
					arabic++
				}
				seen[fold(w)]++
				if total++; total >= 4000 {
					break sample
				}
			}
		}
	}
	switch kana := scripts[hiragana] + scripts[katakana]; {
	case total == 0:
		return nil
	case scripts[hangul]*3 > total:
		return all["ko"]
	case (scripts[han]+kana)*2 > total && kana*10 > scripts[han]:
		return all["ja"]
	case scripts[han]*2 > total:
		return all["zh"]
	case arabic*2 > total && (hint == "" || hint == "ar"):
		return all["ar"]
	}
	var best *lexicon
	most := 0
	for _, s := range lexiconSources {
		lex, hits := all[s.tag], 0
		for w, n := range seen {
			if lex.stop[w] {
				hits += 2 * n
			}
		}
		if s.tag == hint && hits > 0 {
			hits++
		}
		if hits > most {
			best, most = lex, hits
		}
	}
	// Chance hits are no language: at least one word in eight is a small one.
	if most*4 < total {
		return nil
	}
	return best
}

// fold makes spellings of one word equal.
func fold(w string) string {
	w = strings.ToLower(w)
	if strings.Contains(w, "’") {
		w = strings.ReplaceAll(w, "’", "'")
	}
	return w
}

// elided is what follows an article glued on by an apostrophe (l'erreur,
// dell'errore), or "".
func elided(w string) string {
	i := strings.IndexByte(w, '\'')
	if i <= 0 || i > 5 || utf8.RuneCountInString(w[i+1:]) < 3 {
		return ""
	}
	return w[i+1:]
}

// stem makes most inflected forms of a word equal without knowing the language:
// the first six letters, two syllables in Korean, no article in Arabic.
func stem(w string, s script) string {
	n := 6
	switch s {
	case hangul:
		n = 2
	case katakana:
		return w
	case spaced:
		for _, article := range [...]string{"وال", "بال", "لل", "ال"} {
			if rest, ok := strings.CutPrefix(w, article); ok && utf8.RuneCountInString(rest) >= 3 {
				w = rest
				break
			}
		}
	}
	if r, _ := utf8.DecodeRuneInString(w); unicode.IsDigit(r) {
		return w
	}
	return w[:runeOffset(w, n)]
}

// termsOf counts a text's words and calls yield with each term it is about. The
// rough way takes hiragana too, which is mostly grammar.
func termsOf(text string, lex *lexicon, rough bool, yield func(string)) (count int) {
	var run []string // neighbours in a script without blanks
	var runScript script
	japanese := lex != nil && lex.tag == "ja"
	emit := func(t string) {
		if lex == nil || !lex.stop[t] {
			yield(t)
		}
	}
	flush := func() {
		n := 2
		if runScript == spaceless {
			n = 3
		}
		switch {
		case len(run) == 0:
		case len(run) < n:
			emit(strings.Join(run, ""))
		default:
			for i := 0; i+n <= len(run); i++ {
				if t := strings.Join(run[i:i+n], ""); runScript != han || japanese || !strings.ContainsAny(t, grammarHan) {
					emit(t)
				}
			}
		}
		run = run[:0]
	}
	for it := words.FromString(text); it.Next(); {
		w := it.Value()
		r, _ := utf8.DecodeRuneInString(w)
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			continue
		}
		count++
		s := scriptOf(r)
		if s == han || s == spaceless {
			if s != runScript {
				flush()
			}
			runScript, run = s, append(run, w)
			continue
		}
		flush()
		if s == hiragana {
			continue
		}
		w = fold(w)
		if lex != nil && lex.stop[w] {
			continue
		}
		if rest := elided(w); rest != "" {
			if w = rest; lex != nil && lex.stop[w] {
				continue
			}
		}
		if utf8.RuneCountInString(w) > 1 || unicode.IsDigit(r) {
			emit(stem(w, s))
		}
	}
	flush()
	if rough {
		var kana []rune
		for _, r := range text {
			if scriptOf(r) == hiragana {
				kana = append(kana, r)
			}
		}
		for i := 0; i+3 <= len(kana); i++ {
			yield(string(kana[i : i+3]))
		}
	}
	return count
}

// grammarHan are Chinese characters that carry grammar: a pair with one of them
// is no word of the topic.
const grammarHan = "的了是在和就也都很不我你他她它这那吗呢吧啊们与及把被让给从到而且但或之其個这這們嗎與"

// read turns material into a document.
func read(material []Message, hint string) *document {
	d := &document{turns: readTurns(material)}
	user := func(t turn) bool { return t.speaker == "user" }
	other := func(t turn) bool { return t.speaker != "user" }
	d.answered = slices.ContainsFunc(d.turns, user) && slices.ContainsFunc(d.turns, other)
	d.lex = language(d.turns, hint)
	if d.readSentences(false); len(d.df) == 0 && d.words > 0 {
		// Nothing but small words, such as Japanese for children: better rough
		// topics than none.
		d.sentences, d.words = nil, 0
		d.readSentences(true)
	}
	return d
}

func (d *document) readSentences(rough bool) {
	ids := map[string]int32{}
	for i, t := range d.turns {
		for _, b := range t.blocks {
			for _, span := range b.split(d.lex) {
				s := &sentence{block: b, start: span[0], end: span[1], position: len(d.sentences), turn: i}
				s.words = termsOf(s.text(), d.lex, rough, func(t string) {
					id, ok := ids[t]
					if !ok {
						id = int32(len(ids))
						// A copy, so that a term does not keep a lowered text alive.
						ids[strings.Clone(t)] = id
						d.df = append(d.df, 0)
					}
					s.terms = append(s.terms, id)
				})
				slices.Sort(s.terms)
				s.terms = slices.Compact(s.terms)
				for _, id := range s.terms {
					d.df[id]++
				}
				d.words += s.words
				d.sentences = append(d.sentences, s)
			}
		}
	}
}

// foldWords is a sentence as cues are looked for in it.
func foldWords(text string, lex *lexicon) string {
	if lex == nil || lex.tag == "ja" || lex.tag == "zh" || lex.tag == "ko" {
		return strings.ToLower(text)
	}
	var b strings.Builder
	b.WriteByte(' ')
	for it := words.FromString(text); it.Next(); {
		if w := it.Value(); isWord(w) {
			w = fold(w)
			if rest := elided(w); rest != "" {
				b.WriteString(rest)
				b.WriteByte(' ')
			}
			b.WriteString(w)
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func firstWord(folded string) string {
	w, _, _ := strings.Cut(strings.TrimPrefix(folded, " "), " ")
	return w
}
