// Package transcript reads speech and prose out of what people paste: cues of
// WebVTT and SubRip, lines with a time and a name before them, exports of chats,
// minutes in Markdown, web pages.
//
// What remains is what was said or written, paragraph by paragraph, with who said
// it. Times, numbers of cues, names before a line, notices of the program that
// wrote the export, and markup are left out. Nothing is translated, corrected or
// reordered, so that a sentence of a paragraph stands in the text as well, white
// space and markup aside.
//
// No form has to be named, and none is parsed strictly: exports differ between
// versions, languages and phones, and people edit what they paste. A line is
// speech where most of its neighbours look as speech does (speech.go); all other
// text is prose (prose.go).
package transcript

import (
	"strings"
	"unicode"
)

// Kind is what a paragraph is.
type Kind int

// The kinds of a paragraph.
const (
	Prose   Kind = iota // running text, or what somebody said
	Item                // stood behind a bullet or a number
	Heading             // stood above other text
	Aside               // code, a table's row, lines before a transcript: worth quoting only where there is nothing else
)

// Paragraph is a piece of text that belongs together.
type Paragraph struct {
	Speaker string // as the text has it; empty where nobody is named
	Text    string // one line, never blank
	Kind    Kind
}

// Read takes any string. It returns nothing for one in which a reader would see
// nothing.
func Read(text string) []Paragraph {
	text = clean(text)
	if isPage(text) {
		text = clean(pageText(text))
	}
	lines := strings.Split(text, "\n")
	if said := readSpeech(lines); len(said) > 0 {
		return said
	}
	return readProse(lines)
}

// Blank reports whether a reader would see nothing at all.
func Blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.IsMark(r) && r != 0x3164 && r != 0x2800
	})
}

// clean makes any string safe to quote from: valid UTF-8, one kind of line end, no
// control characters. Embeddings and overrides of the text's direction go too: a
// quotation that holds only the first of a pair would turn the rest of the
// reader's page around.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\v', r == '\f', r == 0x85, r == 0x2028, r == 0x2029:
			return '\n'
		case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0xFEFF, r == 0xAD:
			return -1
		case unicode.IsControl(r), unicode.IsSpace(r):
			return ' '
		}
		return r // Map has made U+FFFD of what is no UTF-8
	}, strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s))
}

// squeeze collapses white space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
