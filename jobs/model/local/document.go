package local

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	// uax29 rather than rivo/uniseg: both pass the Unicode conformance tests, but
	// uax29 is on Unicode 17 (uniseg on 15), five to eight times faster on our
	// texts, and one module serves words, sentences and graphemes.
	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/clipperhouse/uax29/v2/sentences"
	"github.com/clipperhouse/uax29/v2/words"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/transcript"
)

// maxSentence is the most runes of a quotation, so that nothing the model writes
// can grow with its input.
const maxSentence = 400

// document is the material, read.
type document struct {
	sentences []*sentence
	ranked    []*sentence // the best ones, best first
	words     int
}

// sentence is the unit that is weighed and quoted.
type sentence struct {
	text     string
	kind     transcript.Kind
	position int
	terms    []int32 // distinct, ascending
	score    float64
}

// read finds the sentences of all messages. Instructions and the output of tools
// are nobody's words and count only where there is nothing else.
func read(material []model.Message) *document {
	d, index := &document{}, map[string]int32{}
	others := slices.DeleteFunc(slices.Clone(material), spoken)
	for _, messages := range [][]model.Message{slices.DeleteFunc(slices.Clone(material), func(m model.Message) bool { return !spoken(m) }), others} {
		for _, m := range messages {
			for _, p := range transcript.Read(m.Content) {
				for _, text := range split(p.Text) {
					d.add(text, p.Kind, index)
				}
			}
		}
		if len(d.sentences) > 0 {
			break
		}
	}
	d.rank(len(index))
	return d
}

func spoken(m model.Message) bool {
	return !slices.Contains([]string{"system", "developer", "tool", "function"}, m.Role)
}

// add notes what a sentence is about: its words of four letters or more, of any
// length in scripts that write more with a letter. Small words say little.
func (d *document) add(text string, kind transcript.Kind, index map[string]int32) {
	s := &sentence{text: text, kind: kind, position: len(d.sentences)}
	for it := words.FromString(text); it.Next(); {
		first, _ := utf8.DecodeRuneInString(it.Value())
		if !unicode.IsLetter(first) && !unicode.IsDigit(first) {
			continue
		}
		d.words++
		if utf8.RuneCountInString(it.Value()) < 4 && first < 0xE00 && !unicode.IsDigit(first) {
			continue
		}
		word := strings.ToLower(it.Value())
		t, known := index[word]
		if !known {
			t = int32(len(index))
			index[word] = t
		}
		s.terms = append(s.terms, t)
	}
	slices.Sort(s.terms)
	s.terms = slices.Compact(s.terms)
	d.sentences = append(d.sentences, s)
}

// candidates bounds how many sentences are compared with each other.
const candidates = 200

// rank scores each sentence by how much of what the material is about it holds,
// and by its place. A word in one sentence says little about the whole, one in
// all of them nothing; the best are in between.
func (d *document) rank(terms int) {
	n := float64(len(d.sentences))
	holds := make([]float64, terms)
	for _, s := range d.sentences {
		for _, t := range s.terms {
			holds[t]++
		}
	}
	for i, s := range d.sentences {
		for _, t := range s.terms {
			s.score += (1 + math.Log2(holds[t])) * math.Log((n+1)/holds[t])
		}
		s.score *= (1 + 0.4*math.Exp(-3*float64(i)/n)) / math.Pow(float64(len(s.terms))+4, 0.65)
		switch {
		case s.kind == transcript.Aside, len(s.terms) == 0:
			s.score *= 0.1
		case s.kind == transcript.Heading, len(s.terms) < 3:
			s.score *= 0.3
		case isQuestion(s.text):
			s.score *= 0.5
		}
	}
	d.ranked = slices.Clone(d.sentences)
	slices.SortFunc(d.ranked, func(a, b *sentence) int { return cmp.Or(cmp.Compare(b.score, a.score), inOrder(a, b)) })
	d.ranked = d.ranked[:min(len(d.ranked), candidates)]
}

func inOrder(a, b *sentence) int { return cmp.Compare(a.position, b.position) }

// choose takes up to n of the best sentences that say something else than those
// before and each other, in the order of the material. What is far below the best
// is not worth a reader's time.
func (d *document) choose(before []*sentence, n int) (out []*sentence) {
	said := slices.Clone(before)
	for _, s := range d.ranked {
		if len(out) == n || s.score < 0.2*d.ranked[0].score {
			break
		}
		if !slices.ContainsFunc(said, func(b *sentence) bool { return likeness(s, b) > 0.7 }) {
			said, out = append(said, s), append(out, s)
		}
	}
	slices.SortFunc(out, inOrder)
	return out
}

// likeness is the share of the shorter sentence's terms that both hold.
func likeness(a, b *sentence) float64 {
	if len(a.terms) == 0 || len(b.terms) == 0 {
		if a.text == b.text {
			return 1
		}
		return 0
	}
	common := 0
	for _, t := range a.terms {
		if _, ok := slices.BinarySearch(b.terms, t); ok {
			common++
		}
	}
	return float64(common) / float64(min(len(a.terms), len(b.terms)))
}

// items are the first n entries of lists.
func (d *document) items(n int) (out []*sentence) {
	for _, s := range d.sentences {
		if s.kind == transcript.Item && len(s.terms) > 0 && len(out) < n {
			out = append(out, s)
		}
	}
	return out
}

// title is the material's own heading, or the first of the chosen sentences that
// says something, cut.
func (d *document) title(chosen []*sentence) string {
	if first := d.sentences[0]; first.kind == transcript.Heading {
		return shorten(first.text)
	}
	for _, s := range chosen {
		if len(s.terms) >= 3 && !isQuestion(s.text) {
			return shorten(s.text)
		}
	}
	return shorten(chosen[0].text)
}

// join writes sentences as one text. What ended without a mark gets a full stop,
// so that a list item does not run into the next sentence.
func join(list []*sentence) string {
	var b strings.Builder
	for i, s := range list {
		b.WriteString(s.text)
		last, _ := utf8.DecodeLastRuneInString(s.text)
		switch {
		case i == len(list)-1:
		case unicode.In(last, unicode.Han, unicode.Hiragana, unicode.Katakana):
			b.WriteString("。")
		case last == '。', last == '！', last == '？':
		case unicode.IsLetter(last) && last < 0xE00, unicode.IsDigit(last):
			b.WriteString(". ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// split finds the sentences of a paragraph. The standard's rules know no words:
// what is no end for a reader (an abbreviation, an address) is put together again.
func split(text string) (out []string) {
	start := 0
	flush := func(end int) {
		for s := strings.TrimSpace(text[start:end]); s != ""; {
			n := fits(s, maxSentence, utf8.RuneCountInString)
			out = append(out, strings.TrimSpace(s[:n]))
			s = strings.TrimSpace(s[n:])
		}
		start = end
	}
	for _, window := range windows(text) {
		for it := sentences.FromString(text[window[0]:window[1]]); it.Next(); {
			end := window[0] + it.End()
			// The standard leaves any bracket with the sentence before: 。「
			if r, size := utf8.DecodeLastRuneInString(text[start:end]); unicode.In(r, unicode.Ps, unicode.Pi) && end-size > start {
				end -= size
			}
			if isEnd(text[start:end], text[end:]) {
				flush(end)
			}
		}
	}
	flush(len(text))
	return out
}

// windows cuts inside long runs without a letter or a digit: the segmenter looks
// back over such a run from each of its runes.
func windows(s string) (out [][2]int) {
	start, run := 0, 0
	for i, r := range s {
		if run++; unicode.IsLetter(r) || unicode.IsDigit(r) {
			run = 0
		}
		if run > 256 {
			out = append(out, [2]int{start, i})
			start, run = i, 0
		}
	}
	return append(out, [2]int{start, len(s)})
}

// isEnd reports whether a reader sees an end between two parts. A Latin mark ends
// a sentence before a blank only, and a full stop not behind an initial, a day's
// number or an abbreviation with a second stop; what was said in quotation marks
// may go on.
func isEnd(before, after string) bool {
	trimmed := strings.TrimRight(before, " ")
	last, _ := utf8.DecodeLastRuneInString(trimmed)
	next, _ := utf8.DecodeRuneInString(after)
	switch {
	case after == "":
		return true
	case trimmed == before && last < utf8.RuneSelf, unicode.IsLower(next):
		return false
	case unicode.In(last, unicode.Pe, unicode.Pf):
		return !unicode.Is(unicode.Hiragana, next)
	case !strings.HasSuffix(trimmed, ".") || strings.HasSuffix(trimmed, ".."):
		return true
	}
	word := strings.TrimLeft(trimmed[strings.LastIndexByte(trimmed, ' ')+1:len(trimmed)-1], `([{"'„“«`)
	return utf8.RuneCountInString(word) > 2 && (!strings.Contains(word, ".") || strings.ContainsAny(word, "0123456789/@"))
}

const questionMarks = "?？؟⁇⁈՞"

func isQuestion(text string) bool {
	text = strings.TrimRightFunc(text, func(r rune) bool {
		return strings.ContainsRune("\"'! ", r) || unicode.In(r, unicode.Pe, unicode.Pf)
	})
	last, _ := utf8.DecodeLastRuneInString(text)
	return strings.ContainsRune(questionMarks, last)
}

// titleWidth is in columns of a screen: 80 Latin letters or 40 Han characters.
const titleWidth = 80

// shorten makes a title of a sentence: at most titleWidth columns, cut behind a
// word, without punctuation at its ends. It is empty for no text that shows
// anything.
func shorten(text string) string {
	cut := text[:fits(text, titleWidth, columns)]
	for _, c := range []string{strings.TrimFunc(cut, isMark), strings.TrimRightFunc(cut, isMark)} {
		if c != "" {
			return c
		}
	}
	return strings.TrimSpace(cut)
}

func isMark(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(".,;:!?…-–—、。，；：！？؟،؛۔·।॥*_`•~", r)
}

func columns(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x1100 && r <= 0x115F || r >= 0x2E80 && r <= 0xA4CF || r >= 0xAC00 && r <= 0xD7A3 || r >= 0xF900 && r <= 0xFAFF ||
			r >= 0xFE30 && r <= 0xFE6F || r >= 0xFF00 && r <= 0xFF60 || r >= 0x1F300 && r <= 0x3FFFD {
			n++
		}
	}
	return n
}

// fits is the length of the longest beginning of s that is at most as large as
// most: up to a word's end, or, where a single word is larger, up to the end of a
// character as a reader sees it. A character with an endless tower of marks is
// cut, so that it is never 0.
func fits(s string, most int, size func(string) int) int {
	// No rune is smaller than 1: what is behind need not be looked at.
	whole := s
	n := 0
	for i := range s {
		if n++; n > most+1 {
			s = s[:i]
			break
		}
	}
	if size(s) <= most {
		return len(s)
	}
	total, end := 0, 0
	for it := words.FromString(s); it.Next(); {
		if total += size(it.Value()); total > most {
			break
		}
		if next, _ := utf8.DecodeRuneInString(whole[it.End():]); !unicode.IsMark(next) {
			end = it.End()
		}
	}
	if end*2 > len(s) || end > 0 && strings.TrimFunc(s[:end], isMark) != "" && end*4 > len(s) {
		return end
	}
	total = 0
	for it := graphemes.FromString(s); it.Next(); {
		if total += size(it.Value()); total > most {
			break
		}
		end = it.End()
	}
	if end == 0 {
		for i := range s {
			if i > 0 && size(s[:i]) > most {
				break
			}
			end = i
		}
	}
	return max(end, 1)
}

// countWords counts what has a letter or a digit, our tokens.
func countWords(s string) (n int) {
	for it := words.FromString(s); it.Next(); {
		if first, _ := utf8.DecodeRuneInString(it.Value()); unicode.IsLetter(first) || unicode.IsDigit(first) {
			n++
		}
	}
	return n
}
