package jobs

import (
	"regexp"
	"strings"
	"unicode"
)

// ourTags are what looks like the delimiters, in whatever spelling.
var ourTags = regexp.MustCompile(`(?i)<(\s*/?\s*record)`)

// plainText makes every line break a newline and takes out what nobody sees, or
// what shows text in another order than it is read in: a reader of the transcript
// would not know of orders in it, a model would.
func plainText(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(s)
	return ourTags.ReplaceAllString(visible(strings.ToValidUTF8(s, "\uFFFD")), "‹$1")
}

// unseen tells whether a rune draws nothing by itself. Signs around numbers and
// the joints of hieroglyphs are format controls too, but are seen.
func unseen(r rune) bool {
	return unicode.IsControl(r) ||
		unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) &&
			!unicode.In(r, unicode.Prepended_Concatenation_Mark, unicode.Egyptian_Hieroglyphs)
}

// visible takes out what is unseen, but for newlines, tabs and what a script or a
// picture is spelled with: joiners in Persian or Hindi, selectors after a
// character that has variants, joined emoji, the tags of a flag.
func visible(s string) string {
	all := []rune(s)
	var out strings.Builder
	out.Grow(len(s))
	var base rune // the last one that is seen, marks aside
	kept := 0     // unseen ones since the last one that is seen
	for i := 0; i < len(all); i++ {
		r := all[i]
		switch {
		case r == '\n' || r == '\t':
			base, kept = r, 0
		case unseen(r):
			next := rune(0)
			if i+1 < len(all) {
				next = all[i+1]
			}
			if kept >= mostKept || !spells(r, base, next, kept) {
				continue
			}
			kept++
		default:
			if !unicode.IsMark(r) {
				base = r
			}
			kept = 0
			if tags := flagTags(all[i:]); tags > 0 {
				out.WriteString(string(all[i : i+1+tags]))
				i += tags
				continue
			}
		}
		out.WriteRune(r)
	}
	return out.String()
}

// mostKept bounds what may follow one character unseen: joiner, non-joiner and
// joiner are the longest that the Unicode standard has a use for.
const mostKept = 3

const (
	zeroWidthNonJoiner = '\u200C'
	zeroWidthJoiner    = '\u200D'
	textStyle          = '\uFE0E'
	emojiStyle         = '\uFE0F'
	blackFlag          = '\U0001F3F4'
	choseongFiller     = '\u115F'
	jungseongFiller    = '\u1160'
)

// spells tells whether an unseen rune belongs to how its neighbours are spelled.
func spells(r, base, next rune, kept int) bool {
	switch {
	case r == zeroWidthJoiner && picture(base) && picture(next):
		return true
	case r == zeroWidthJoiner, r == zeroWidthNonJoiner:
		return joins(base) || joins(next)
	case r == choseongFiller, r == jungseongFiller:
		return unicode.Is(unicode.Hangul, base) || unicode.Is(unicode.Hangul, next) && !unseen(next)
	case r == textStyle, r == emojiStyle:
		return kept == 0 && (unicode.In(base, unicode.S, unicode.P, unicode.Nd) || base == 'ℹ')
	case unicode.Is(unicode.Variation_Selector, r):
		return kept == 0 && unicode.In(base, unicode.Sm, unicode.Han, unicode.Manichaean, unicode.Mongolian, unicode.Myanmar, unicode.Phags_Pa)
	}
	return false
}

// picture tells whether emoji are joined from r. A skin tone ends some of them.
func picture(r rune) bool {
	return unicode.Is(unicode.So, r) || r >= '\u2190' && unicode.Is(unicode.Sm, r) || r >= '\U0001F3FB' && r <= '\U0001F3FF'
}

// joins tells whether r is of a script whose letters take another shape beside
// each other, so that words are spelled with joiners.
func joins(r rune) bool {
	return r == '\u0640' || unicode.In(r, unicode.Adlam, unicode.Arabic, unicode.Balinese, unicode.Bengali, unicode.Chakma, unicode.Devanagari,
		unicode.Gujarati, unicode.Gurmukhi, unicode.Hanifi_Rohingya, unicode.Javanese, unicode.Kannada, unicode.Khmer, unicode.Malayalam,
		unicode.Mandaic, unicode.Manichaean, unicode.Meetei_Mayek, unicode.Mongolian, unicode.Myanmar, unicode.Nko, unicode.Oriya,
		unicode.Phags_Pa, unicode.Sinhala, unicode.Sogdian, unicode.Sundanese, unicode.Syriac, unicode.Tamil, unicode.Telugu, unicode.Tibetan)
}

// flagTags is how many tags make a flag of the character before them: the code of
// a country's part, 3 to 6 letters and digits, and the end. More would be text.
func flagTags(all []rune) int {
	if all[0] != blackFlag {
		return 0
	}
	for n, r := range all[1:] {
		switch {
		case r == 0xE007F && n >= 3:
			return n + 1
		case n >= 6, (r < 0xE0030 || r > 0xE0039) && (r < 0xE0061 || r > 0xE007A):
			return 0
		}
	}
	return 0
}
