package model

import (
	"strings"
	"unicode"
	"unicode/utf8"

	// uax29 rather than rivo/uniseg: both pass the Unicode conformance tests, but
	// uax29 is on Unicode 17 (uniseg on 15), five to eight times faster on our
	// texts, and one module serves words, sentences and graphemes.
	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/clipperhouse/uax29/v2/sentences"
	"github.com/clipperhouse/uax29/v2/words"
)

// A sentence longer than maxSentence runes is cut into pieces, so that nothing
// the model writes can grow with its input.
const maxSentence = 400

// sentence is the unit that is scored and quoted.
type sentence struct {
	block      *block
	start, end int // in block.text
	position   int // in the document
	turn       int
	words      int
	terms      []int32 // distinct, ascending
	score      float64
}

func (s *sentence) text() string { return s.block.text[s.start:s.end] }

// block is one paragraph, list item or heading, its white space collapsed.
type block struct {
	text    string
	item    bool // stood behind a bullet or number
	heading bool
	code    bool
}

// turn is what one speaker said at once.
type turn struct {
	speaker string
	blocks  []*block
}

// clean makes any string safe to quote from: valid UTF-8, one kind of line end,
// no control characters. Embedding and override marks for text direction go
// too: a quotation that holds only the first of a pair would turn the rest of
// the reader's page around.
func clean(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\v', r == '\f', r == 0x85, r == 0x2028, r == 0x2029:
			return '\n'
		case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0xFEFF, r == 0xAD:
			return -1
		case unicode.IsControl(r), unicode.IsSpace(r):
			return ' '
		}
		return r // Map has made U+FFFD of what is no UTF-8
	}, s)
}

// blank reports whether a reader would see nothing at all.
func blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.IsMark(r) && r != 0x3164 && r != 0x2800
	})
}

// readTurns brings the material into one form: a conversation keeps its turns, a
// pasted transcript ("Kari: …" at the line starts) becomes one, and any other
// text is a single turn. Instructions and tool output are nobody's words and
// are left out while there is something else.
func readTurns(material []Message) []turn {
	var turns, others []turn
	for _, m := range material {
		text := clean(m.Content)
		if blank(text) {
			continue
		}
		switch m.Role {
		case "system", "developer", "tool", "function":
			others = append(others, turn{m.Role, readBlocks(strings.Split(text, "\n"))})
			continue
		}
		lines := strings.Split(text, "\n")
		if len(material) == 1 && isTranscript(lines) {
			return readTranscript(lines)
		}
		turns = append(turns, turn{m.Role, readBlocks(lines)})
	}
	if len(turns) == 0 {
		return others
	}
	return turns
}

// speakerOf splits "Name: words". A name is short, starts with a letter, has at
// most three words, and white space follows the colon, so that URLs, times and
// sentences that happen to hold a colon are not speakers.
func speakerOf(line string) (name, rest string, ok bool) {
	i := strings.IndexAny(line[:min(len(line), 64)], ":：")
	if i <= 0 || i > 60 {
		return "", "", false
	}
	name = strings.TrimSpace(line[:i])
	first, _ := utf8.DecodeRuneInString(name)
	_, size := utf8.DecodeRuneInString(line[i:])
	rest = line[i+size:]
	if !unicode.IsLetter(first) || utf8.RuneCountInString(name) > 24 || strings.Count(name, " ") > 2 {
		return "", "", false
	}
	if size == 1 && !strings.HasPrefix(rest, " ") {
		return "", "", false
	}
	return name, strings.TrimSpace(rest), rest != ""
}

// isTranscript wants at least four lines with a speaker, most lines to have one,
// and names that come back: a list of settings has keys that do not.
func isTranscript(lines []string) bool {
	filled, spoken := 0, 0
	names := map[string]int{}
	for _, l := range lines {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		filled++
		if name, _, ok := speakerOf(l); ok {
			spoken++
			names[name]++
		}
	}
	return spoken >= 4 && spoken*3 >= filled*2 && len(names) >= 2 && len(names)*2 <= spoken
}

func readTranscript(lines []string) []turn {
	var turns []turn
	var open []string
	flush := func() {
		if len(turns) > 0 {
			turns[len(turns)-1].blocks = append(turns[len(turns)-1].blocks, readBlocks(open)...)
		}
		open = nil
	}
	for _, l := range lines {
		name, rest, ok := speakerOf(strings.TrimSpace(l))
		if !ok {
			open = append(open, l)
			continue
		}
		flush()
		if len(turns) == 0 || turns[len(turns)-1].speaker != name {
			turns = append(turns, turn{speaker: name})
		}
		open = append(open, rest)
	}
	flush()
	return turns
}

// readBlocks finds paragraphs, list items, headings and code among lines, and
// joins lines that were only wrapped.
func readBlocks(lines []string) []*block {
	var out []*block
	fence, gap, wrapped := false, true, 0
	for _, raw := range lines {
		line := strings.Join(strings.Fields(raw), " ")
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			fence, gap = !fence, true
			continue
		}
		if blank(line) || isRule(line) {
			gap = true
			continue
		}
		if fence {
			out = append(out, &block{text: line, code: true})
			continue
		}
		text, item, heading := stripMarker(line)
		if blank(text) {
			text, item, heading = line, false, false
		}
		if !gap && !item && !heading && continues(out[len(out)-1], wrapped, text) {
			out[len(out)-1].text += " " + text
		} else {
			out = append(out, &block{text: text, item: item, heading: heading})
		}
		gap, wrapped = heading, utf8.RuneCountInString(text)
	}
	if text := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); len(out) == 0 && !blank(text) {
		out = append(out, &block{text: text}) // nothing but rules and fences
	}
	// A first short line without an end, above other text, is a heading in every
	// language.
	if len(out) > 2 && !out[0].item && !out[0].code && width(out[0].text) <= 70 && !endsSentence(out[0].text) {
		out[0].heading = true
	}
	return out
}

func isRule(line string) bool {
	return len(line) >= 3 && strings.Trim(line, "-=_*#~+ ") == ""
}

// continues reports whether text goes on a paragraph whose last line had n runes
// and was broken by an editor that wraps, and not by a writer who was done.
func continues(b *block, n int, text string) bool {
	if b.code || b.heading || n < 45 || endsSentence(b.text) || len(b.text) > 1<<14 {
		return false
	}
	first, _ := utf8.DecodeRuneInString(text)
	if unicode.IsLower(first) {
		return true
	}
	last, _ := utf8.DecodeLastRuneInString(b.text)
	_, _, speaks := speakerOf(text)
	return n >= 60 && n <= 100 && !speaks && (unicode.IsLower(last) || last == ',')
}

// stripMarker takes bullets, numbers, quotation and heading marks off a line.
func stripMarker(line string) (text string, item, heading bool) {
	head, rest, ok := strings.Cut(line, " ")
	if ok && len(head) <= 8 {
		switch {
		case strings.Trim(head, "#") == "":
			return rest, false, true
		case strings.Trim(head, "-*+•‣◦▪–—>·●○") == "":
			rest = strings.TrimPrefix(strings.TrimPrefix(rest, "[ ] "), "[x] ")
			return rest, true, false
		}
		if last := head[len(head)-1]; last == '.' || last == ')' {
			if n := strings.Trim(head, "()."); n != "" && len(n) <= 3 && strings.Trim(n, "0123456789") == "" {
				return rest, true, false
			}
		}
	}
	// Numbered lines without a blank: 1、 2． ① 一、
	r, size := utf8.DecodeRuneInString(line)
	if r >= '①' && r <= '⑳' {
		return strings.TrimSpace(line[size:]), true, false
	}
	if unicode.IsDigit(r) || strings.ContainsRune("一二三四五六七八九十", r) {
		next, n := utf8.DecodeRuneInString(line[size:])
		if next == '、' || next == '．' {
			return strings.TrimSpace(line[size+n:]), true, false
		}
	}
	return line, false, false
}

const terminals = ".!?…。！？｡؟۔।॥՞:："

func endsSentence(s string) bool {
	s = strings.TrimRightFunc(s, isCloser)
	r, _ := utf8.DecodeLastRuneInString(s)
	return strings.ContainsRune(terminals, r)
}

func isCloser(r rune) bool {
	return r == '"' || r == '\'' || r == '*' || r == '_' || unicode.In(r, unicode.Pe, unicode.Pf)
}

// split finds the block's sentences as offsets.
func (b *block) split(lex *lexicon) [][2]int {
	if b.code || b.heading || len(b.text) < 60 && !strings.ContainsAny(b.text, terminals) && isASCII(b.text) {
		return cutLong(b.text, 0, len(b.text), nil)
	}
	var spans [][2]int
	for _, w := range windows(b.text) {
		for it := sentences.FromString(b.text[w[0]:w[1]]); it.Next(); {
			start, end := w[0]+it.Start(), w[0]+it.End()
			// The standard leaves any bracket with the sentence before: 。「
			for n := len(spans); n > 0; {
				r, size := utf8.DecodeLastRuneInString(b.text[spans[n-1][0]:start])
				if !unicode.In(r, unicode.Ps, unicode.Pi) || start-size == spans[n-1][0] {
					break
				}
				start -= size
				spans[n-1][1] = start
			}
			if n := len(spans); n > 0 && belongs(b.text[spans[n-1][0]:spans[n-1][1]], b.text[start:end], lex) {
				spans[n-1][1] = end
			} else {
				spans = append(spans, [2]int{start, end})
			}
		}
	}
	var out [][2]int
	for _, s := range spans {
		out = cutLong(b.text, s[0], s[1], out)
	}
	return out
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// windows cuts inside long runs without a letter or digit. The segmenter looks
// back over such a run from each of its runes: 64 KiB of ")" after "a." took it
// 8 s, and uniseg a minute.
func windows(s string) [][2]int {
	var out [][2]int
	start, run := 0, 0
	for i, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			run = 0
			continue
		}
		if run++; run > 64 && (unicode.IsPunct(r) || r == ' ') || run > 256 {
			out = append(out, [2]int{start, i})
			start, run = i, 0
		}
	}
	return append(out, [2]int{start, len(s)})
}

// belongs reports whether the segmenter cut where a reader would not: after
// abbreviations, initials and day numbers, before the rest of a quotation's
// sentence, and before loose punctuation.
func belongs(prev, next string, lex *lexicon) bool {
	if !strings.ContainsFunc(next, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r > 0x2190 }) {
		return true
	}
	prev = strings.TrimRight(prev, " ")
	first, _ := utf8.DecodeRuneInString(next)
	if last, _ := utf8.DecodeLastRuneInString(prev); isCloser(last) {
		return unicode.IsLower(first) || scriptOf(first) == hiragana
	}
	if !strings.HasSuffix(prev, ".") || strings.HasSuffix(prev, "..") {
		return false
	}
	word := strings.TrimLeft(prev[strings.LastIndexByte(prev, ' ')+1:len(prev)-1], "([{\"'„“«")
	if word == "" {
		return false
	}
	if r, size := utf8.DecodeRuneInString(word); size == len(word) && unicode.IsLetter(r) && unicode.ToUpper(r) != unicode.ToLower(r) && word != "I" {
		return true // J. Lind; z. B.
	}
	if len(word) <= 2 && strings.Trim(word, "0123456789") == "" && lex != nil && lex.ordinals {
		return true
	}
	if i := strings.IndexByte(word, '.'); i > 0 && i <= 4 && len(word) <= 8 && !unicode.IsDigit(rune(word[0])) {
		return true
	}
	return abbreviations[strings.ToLower(word)]
}

// cutLong appends the span, trimmed, in pieces of a bounded length. Scripts that
// mark a sentence's end with a blank only are cut there.
func cutLong(text string, start, end int, out [][2]int) [][2]int {
	for start < end {
		for start < end && text[start] == ' ' {
			start++
		}
		for start < end && text[end-1] == ' ' {
			end--
		}
		if start == end {
			break
		}
		cut := end
		if first, _ := utf8.DecodeRuneInString(text[start:]); isSpaceless(first) {
			cut = start + cutAfter(text[start:end], 40)
		}
		if runeOffset(text[start:cut], maxSentence) < cut-start {
			cut = start + cutPoint(text[start:cut])
		}
		out = append(out, [2]int{start, cut})
		if n := len(out) - 1; text[out[n][1]-1] == ' ' {
			out[n][1]--
		}
		start = cut
	}
	return out
}

// cutAfter is the offset behind the first blank after min runes, or the end. It
// looks no further than a sentence may reach.
func cutAfter(s string, min int) int {
	n := 0
	for i, r := range s {
		if n++; r == ' ' && n > min {
			return i + 1
		}
		if n > maxSentence {
			break
		}
	}
	return len(s)
}

// cutPoint chooses where a too long sentence is cut: best behind a clause, else
// behind a word, else between two characters as a reader sees them.
func cutPoint(s string) int {
	clause, space, n := 0, 0, 0
	for i, r := range s {
		if n++; n > maxSentence {
			break
		}
		switch end := i + utf8.RuneLen(r); {
		case r == ' ' && i > 0 && strings.IndexByte(",;:", s[i-1]) >= 0, strings.ContainsRune("，；、،؛", r):
			clause = end
		case r == ' ':
			space = end
		}
	}
	if clause > 200 {
		return clause
	}
	if space > 100 {
		return space
	}
	limit, cut := runeOffset(s, maxSentence), 0
	// One rune more shows whether the last character ends at the limit; all the
	// rest would be walked again for each piece of an endless tower of marks.
	for it := graphemes.FromString(s[:min(len(s), limit+utf8.UTFMax)]); it.Next() && it.End() <= limit; {
		cut = it.End()
	}
	if cut == 0 {
		return limit
	}
	return cut
}

func runeOffset(s string, n int) int {
	for i := range s {
		if n--; n < 0 {
			return i
		}
	}
	return len(s)
}

// countWords counts what has a letter or a digit, our tokens.
func countWords(s string) int {
	n := 0
	for it := words.FromString(s); it.Next(); {
		if isWord(it.Value()) {
			n++
		}
	}
	return n
}

func isWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}
