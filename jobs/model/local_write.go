package model

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/clipperhouse/uax29/v2/words"
)

// summaryOutput and the other outputs are the wire shapes; see Local.
type summaryOutput struct {
	Title     string   `json:"title"`
	Summary   string   `json:"summary"`
	KeyPoints []string `json:"key_points"`
}

type guidanceOutput struct {
	Steps []guidanceStep `json:"steps"`
}

type guidanceStep struct {
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

type classificationOutput struct {
	Label      string  `json:"label"`
	Confidence float64 `json:"confidence"`
}

// summarize gives a quarter of short material and at most four sentences as the
// summary, and other sentences as key points: a reader sees both and should not
// read anything twice.
func (d *document) summarize() summaryOutput {
	ranked := d.rank()
	n := d.substance()
	if n >= 3 {
		ranked = slices.DeleteFunc(ranked, func(s *sentence) bool { return len(s.terms) < 3 })
	}
	main := pick(ranked, nil, min(max((n+3)/4, 1), 4), 0.3)
	points := pick(ranked, main, min(max((n+1)/3, 1), 5), 0.35)
	if len(points) == 0 {
		points = main
	}
	out := summaryOutput{Title: d.title(ranked), Summary: join(main)}
	for _, s := range points {
		out.KeyPoints = append(out.KeyPoints, s.text())
	}
	return out
}

// substance counts the sentences with something to say.
func (d *document) substance() int {
	n := 0
	for _, s := range d.sentences {
		if len(s.terms) >= 3 && !s.block.heading && !s.block.code {
			n++
		}
	}
	return n
}

// title is the material's own heading, or the best of the well placed sentences
// that fit, or the best one, cut.
func (d *document) title(ranked []*sentence) string {
	if len(d.sentences) == 0 {
		return ""
	}
	if first := d.sentences[0]; first.block.heading && len(first.terms) > 0 {
		return shorten(first.text(), d.lex)
	}
	best, most := ranked[0], 0.0
	opening, _ := d.ends()
	for _, s := range ranked[:min(len(ranked), 12)] {
		score := s.score
		if width(s.text()) > titleWidth {
			score *= 0.75
		}
		if isQuestion(s.text()) {
			score *= 0.9
		}
		if s == opening && len(d.turns) > 1 {
			score *= 1.3
		}
		if score > most {
			best, most = s, score
		}
	}
	return shorten(best.text(), d.lex)
}

// join writes sentences as one text. What ended without a mark gets one, so that
// a list item does not run into the next sentence.
func join(list []*sentence) string {
	var b strings.Builder
	for i, s := range list {
		text := s.text()
		b.WriteString(text)
		last, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(text, isCloser))
		wide := isWide(last)
		if i == len(list)-1 {
			break
		}
		switch {
		case wide && (unicode.IsLetter(last) || unicode.IsDigit(last)) && scriptOf(last) != hangul:
			b.WriteString("。")
		case wide && scriptOf(last) != hangul:
		case isSpaceless(last):
			b.WriteByte(' ')
		case unicode.IsLetter(last) || unicode.IsDigit(last):
			b.WriteString(". ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// titleWidth is in columns of a screen: 80 Latin letters or 40 Han characters.
const titleWidth = 80

// isWide reports whether a rune takes two columns.
func isWide(r rune) bool {
	return r >= 0x1100 && r <= 0x115F || r >= 0x2E80 && r <= 0xA4CF || r >= 0xAC00 && r <= 0xD7A3 ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0xFE30 && r <= 0xFE6F || r >= 0xFF00 && r <= 0xFF60 ||
		r >= 0x1F300 && r <= 0x1FAFF || r >= 0x20000 && r <= 0x3FFFD
}

func width(s string) int {
	n := 0
	for _, r := range s {
		if n++; isWide(r) {
			n++
		}
	}
	return n
}

// shorten makes a title: no greeting in front, at most titleWidth columns, cut
// behind a clause if one is long enough, else behind a word that can end a
// phrase, and no punctuation at the end. It is never empty for text that shows
// anything.
func shorten(text string, lex *lexicon) string {
	text = withoutPreamble(text, lex)
	cut := text
	if width(text) > titleWidth {
		cut = fit(text, lex)
	}
	if cut = trimTitle(cut); cut == "" {
		// Nothing but punctuation: as it is, only not too long.
		return text[:fitGraphemes(text, titleWidth)]
	}
	r, size := utf8.DecodeRuneInString(cut)
	if next, _ := utf8.DecodeRuneInString(cut[size:]); unicode.IsLower(r) && !unicode.IsUpper(next) {
		// Title case is one rune for one rune; a word such as iPhone stays.
		cut = string(unicode.ToTitle(r)) + cut[size:]
	}
	return cut
}

// labels stand before a mail's title.
var labels = wordSet(`subject re fwd fw betreff aw emne ämne objet asunto oggetto assunto onderwerp aihe temat 件名 主题 主題 제목 الموضوع`)

// withoutPreamble drops "Hi there," and "So," from the beginning: a first clause
// of at most three words, all of them small. A mail's "Subject:" goes too.
func withoutPreamble(text string, lex *lexicon) string {
	if label, rest, ok := speakerOf(text); ok && rest != "" && labels[fold(label)] {
		text = rest
	}
	i := strings.IndexAny(text, ",，،!！、")
	if i <= 0 || i > 40 || lex == nil {
		return text
	}
	_, size := utf8.DecodeRuneInString(text[i:])
	rest := strings.TrimSpace(text[i+size:])
	folded := strings.Fields(foldWords(text[:i], lex))
	if len(folded) > 3 || !isWord(rest) {
		return text
	}
	for _, w := range folded {
		if !lex.stop[w] {
			return text
		}
	}
	return rest
}

// joints are words that begin another clause, in the larger languages.
var joints = wordSet(`and but because which while so og men fordi mens som och eftersom und aber weil sondern en maar omdat
	et mais parce que y pero porque ma mas ja mutta koska i ale oraz ponieważ`)

// fit returns the part of a too long text that makes the best title.
func fit(text string, lex *lexicon) string {
	clause, end, small, n := 0, 0, 0, 0
	for it := words.FromString(text); it.Next(); {
		w := it.Value()
		n += width(w)
		if n > titleWidth {
			break
		}
		r, _ := utf8.DecodeRuneInString(w)
		switch {
		case strings.ContainsRune(";:；：؛–—", r) && n >= 28, strings.ContainsRune(",，、،", r) && n >= 40,
			joints[fold(w)] && n >= 44 && !strings.HasSuffix(text[:it.Start()], "- "): // not in "Vor- und Nachname"
			clause = end
		case isWord(w) || scriptOf(r) != spaced:
			// Three small words in a row may be cut off the end, not more.
			if lex != nil && lex.stop[fold(w)] && end > 0 && small < 3 {
				small++
				continue
			}
			end, small = it.End(), 0
		case unicode.IsSymbol(r):
			end, small = it.End(), 0
		}
	}
	switch {
	case clause > 0:
		return text[:clause]
	case end > 0:
		return text[:end]
	}
	return text[:fitGraphemes(text, titleWidth)]
}

// fitGraphemes is the length of what fits into columns without cutting through a
// character as a reader sees it.
func fitGraphemes(s string, columns int) int {
	end, n := 0, 0
	for it := graphemes.FromString(s); it.Next(); {
		if n += width(it.Value()); n > columns {
			break
		}
		end = it.End()
	}
	if end == 0 {
		// One character with a tower of marks on it.
		return runeOffset(s, columns)
	}
	return end
}

// trimTitle takes punctuation off the ends; a closing bracket or quote stays with
// its partner.
func trimTitle(s string) string {
	for {
		before := s
		s = strings.TrimRight(s, " \u00a0.,;:!?…-–—、。，；：！？؟،؛۔·।॥~*_`•")
		s = strings.TrimLeft(s, " .,;:!?…-–—、。，；：！？؟،؛*_`•")
		if r, size := utf8.DecodeLastRuneInString(s); isCloser(r) && !strings.ContainsFunc(s[:len(s)-size], isOpener) {
			s = s[:len(s)-size]
		}
		if r, size := utf8.DecodeRuneInString(s); isOpener(r) && !strings.ContainsFunc(s[size:], isCloser) {
			s = s[size:]
		}
		if s == before {
			return s
		}
	}
}

func isOpener(r rune) bool {
	return r == '"' || r == '\'' || unicode.In(r, unicode.Ps, unicode.Pi)
}

// maxDetail bounds a step's detail in runes; the step's own sentence is shorter.
const maxDetail = maxSentence + 200

// guide finds what can be done: list items, sentences that begin like an
// instruction, and those that say what must be or was decided. Where an assistant answers a
// user, the steps are in the answers. Without any, the main sentences in order
// are the best that can be quoted.
func (d *document) guide() guidanceOutput {
	ranked := d.rank()
	top := 1.0
	if len(ranked) > 0 && ranked[0].score > 0 {
		top = ranked[0].score
	}
	acts := map[int]bool{} // by position
	var steps []*sentence
	// Material can have thousands of sentences; steps are sought in its first ones.
	for _, s := range d.sentences[:min(len(d.sentences), 2000)] {
		a := d.action(s)
		if d.answered && d.turns[s.turn].speaker == "user" {
			a *= 0.5
		}
		if a < 0.6 {
			continue
		}
		acts[s.position] = true
		act := *s
		act.score = a + 0.5*min(s.score/top, 1)
		steps = append(steps, &act)
	}
	slices.SortFunc(steps, byScore)
	steps = pick(steps[:min(len(steps), candidates)], nil, 8, 0)
	if len(steps) == 0 {
		steps = pick(ranked, nil, min(max((d.substance()+1)/3, 1), 5), 0.3)
	}
	for _, s := range steps {
		acts[s.position] = true
	}
	out := guidanceOutput{}
	for _, s := range steps {
		out.Steps = append(out.Steps, d.step(s, acts))
	}
	return out
}

// action says how much a sentence is an instruction, from 0 to 1.
func (d *document) action(s *sentence) float64 {
	if len(s.terms) < 2 || s.block.heading || s.block.code {
		return 0
	}
	a := 0.0
	if s.block.item && s.start == 0 {
		a = 0.6
	}
	text := s.text()
	if d.lex != nil {
		folded := foldWords(text, d.lex)
		switch {
		case d.orders(text):
			a += 0.7
		case countCues(d.lex.must, folded) > 0, countCues(d.lex.decision, folded) > 0:
			a += 0.6
		}
		if !d.answered && isQuestion(text) && countCues(d.lex.request, folded) > 0 {
			return 0.7 // "Could you send …?" is something to do
		}
	}
	if isQuestion(text) {
		a *= 0.4
	}
	return min(a, 1)
}

// orders reports whether one of the first clauses begins with an imperative:
// "Then open …", "If it still fails, call …".
func (d *document) orders(text string) bool {
	text = withoutPreamble(text, d.lex)
	for range 3 {
		clause, rest, _ := strings.Cut(text, ", ")
		// Only the beginning matters, and three words may stand before the verb.
		f := strings.Fields(foldWords(clause[:min(len(clause), 120)], d.lex))
		for len(f) > 1 && (sequence[f[0]] || d.lex.open[f[0]] && !d.lex.do[f[0]]) {
			f = f[1:]
		}
		if len(f) > 0 && d.lex.do[f[0]] && !(d.lex.ask[f[0]] && len(f) > 1) || d.lex.tag == "de" && formalImperative(f) {
			return true
		}
		text = rest
	}
	return false
}

// sequence are words that put steps in order. Stories have them too, so that
// they make no step by themselves.
var sequence = wordSet(`first then next finally now først deretter så til derefter först sedan zuerst danach anschließend zunächst dann jetzt
	d'abord ensuite enfin puis primero después finalmente luego prima poi infine primeiro depois eerst vervolgens daarna
	ensin sitten lopuksi najpierw następnie potem أولا ثانيا ثالثا أخيرا ثم`)

// formalImperative is German "Öffnen Sie …", for any verb.
func formalImperative(f []string) bool {
	return len(f) > 1 && f[1] == "sie" && strings.HasSuffix(f[0], "n")
}

// step quotes a sentence as a short title, and with it up to two that follow it in
// the same paragraph before the next step.
func (d *document) step(s *sentence, acts map[int]bool) guidanceStep {
	end := s.end
	for _, next := range d.sentences[s.position+1 : min(s.position+3, len(d.sentences))] {
		if next.block != s.block || acts[next.position] || isQuestion(next.text()) || utf8.RuneCountInString(s.block.text[s.start:next.end]) > maxDetail {
			break
		}
		end = next.end
	}
	return guidanceStep{Title: shorten(s.text(), d.lex), Detail: s.block.text[s.start:end]}
}
