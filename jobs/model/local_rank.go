package model

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits that keep the work linear in the input: only the best candidates are
// looked at closely and compared with each other.
const candidates = 200

// rank scores every sentence by how much of what the material is about it
// holds, and by where it stands, and returns the best candidates, best first.
//
// The measure is likeness to the whole (a centroid), which costs one look at
// each word. Likeness of every sentence to every other, as TextRank has it,
// chooses much the same ones and is quadratic.
func (d *document) rank() []*sentence {
	n := float64(len(d.sentences))
	weight := make([]float64, len(d.df))
	for t, df := range d.df {
		// A word in one sentence says little about the whole, a word in all of them
		// nothing at all; the best are in between.
		weight[t] = (1 + math.Log2(float64(df))) * math.Log((n+1)/float64(df))
	}
	talk := len(d.turns) > 1
	opening, closing := d.ends()
	blockOf, firstOfBlock := (*block)(nil), false
	for i, s := range d.sentences {
		firstOfBlock, blockOf = s.block != blockOf, s.block
		sum := 0.0
		for _, t := range s.terms {
			sum += weight[t]
		}
		s.score = sum / math.Pow(float64(len(s.terms))+4, 0.65)
		switch {
		case len(s.terms) == 0:
			s.score *= 0.1
		case len(s.terms) < 3:
			s.score *= 0.35
		}
		switch {
		case s.block.code:
			s.score *= 0.1
		case s.block.heading:
			s.score *= 0.25
		case s.block.item && talk:
			s.score *= 0.5 // a step of somebody's instructions, out of its list
		}
		if s == opening {
			s.score *= 2
		}
		if talk {
			// How a conversation ends is what it came to.
			if s.turn >= closing {
				s.score *= 1.3
			}
		} else {
			s.score *= 1 + 0.4*math.Exp(-3*float64(i)/n)
			if firstOfBlock {
				s.score *= 1.15
			}
			if i == len(d.sentences)-1 && i > 3 {
				s.score *= 1.15
			}
		}
		if strings.ContainsFunc(s.text(), unicode.IsDigit) {
			s.score *= 1.1
		}
	}
	best := slices.Clone(d.sentences)
	slices.SortFunc(best, byScore)
	best = best[:min(len(best), candidates)]
	for _, s := range best {
		s.score *= d.tone(s, s == opening)
	}
	slices.SortFunc(best, byScore)
	return best
}

// ends finds where the material begins to say something, and the turn from which
// on it comes to its end.
func (d *document) ends() (opening *sentence, closing int) {
	for _, s := range d.sentences {
		if len(s.terms) >= 3 && !s.block.heading && !s.block.code {
			opening = s
			break
		}
	}
	last := len(d.turns) - 1
	for i := len(d.sentences) - 1; i >= 0; i-- {
		if s := d.sentences[i]; len(s.terms) >= 3 {
			last = s.turn
			break
		}
	}
	return opening, max(last-len(d.turns)/4, 1)
}

// tone weighs what a sentence does: results count more, and what makes little
// sense without its neighbours less.
func (d *document) tone(s *sentence, opening bool) float64 {
	f := 1.0
	text := s.text()
	if isQuestion(text) && !opening {
		f *= 0.55
	}
	if d.lex == nil {
		return f
	}
	folded := foldWords(text, d.lex)
	if countCues(d.lex.decision, folded) > 0 {
		f *= 1.3
	}
	if countCues(d.lex.problem, folded) > 0 {
		f *= 1.15
	}
	if !opening && pointsBack(text, folded, d.lex) {
		f *= 0.7
	}
	if withoutPreamble(text, d.lex) != text {
		f *= 0.8 // "No, …" answers somebody
	}
	return f
}

// pointsBack reports whether the sentence begins with a word such as "this" or
// "but", which the reader can only follow with the sentence before.
func pointsBack(text, folded string, lex *lexicon) bool {
	if lex.tag == "ja" || lex.tag == "zh" {
		for w := range lex.open {
			if strings.HasPrefix(text, w) {
				return true
			}
		}
		return false
	}
	return lex.open[firstWord(folded)]
}

const questionMarks = "?？؟⁇⁈՞"

func isQuestion(text string) bool {
	text = strings.TrimRightFunc(text, func(r rune) bool { return isCloser(r) || r == ' ' || r == '!' })
	r, _ := utf8.DecodeLastRuneInString(text)
	if strings.ContainsRune(questionMarks, r) {
		return true
	}
	text = strings.TrimRight(text, "。.")
	for _, end := range [...]string{"ますか", "ですか", "でしょうか", "ませんか", "吗", "嗎", "呢", "습니까", "나요", "까요"} {
		if strings.HasSuffix(text, end) {
			return true
		}
	}
	return false
}

// pick chooses up to n of the ranked sentences, each the best of those that say
// something new (maximal marginal relevance), and returns them in the order of
// the material. What is in before counts as said. Sentences below a share of the
// best one's score are not worth a reader's time.
func pick(ranked, before []*sentence, n int, least float64) []*sentence {
	said := slices.Clone(before)
	var out []*sentence
	if len(ranked) == 0 {
		return nil
	}
	// The best one may stand far above the others by its place alone.
	top := ranked[min(1, len(ranked)-1)].score
	// Likeness to what is said already is kept per candidate: each choice costs one
	// pass.
	like := make([]float64, len(ranked))
	for _, b := range before {
		for i, s := range ranked {
			like[i] = max(like[i], likeness(s, b))
		}
	}
	for len(out) < n {
		var next *sentence
		bestGain := 0.0
		for i, s := range ranked {
			if slices.Contains(said, s) || like[i] > 0.7 || s.score < least*top {
				continue
			}
			if gain := s.score * (1 - like[i]); next == nil || gain > bestGain {
				next, bestGain = s, gain
			}
		}
		if next == nil {
			break
		}
		said, out = append(said, next), append(out, next)
		for i, s := range ranked {
			like[i] = max(like[i], likeness(s, next))
		}
	}
	slices.SortFunc(out, inOrder)
	return out
}

func byScore(a, b *sentence) int {
	return cmp.Or(cmp.Compare(b.score, a.score), inOrder(a, b))
}

func inOrder(a, b *sentence) int { return cmp.Compare(a.position, b.position) }

// likeness is the share of the shorter sentence's terms that both hold.
func likeness(a, b *sentence) float64 {
	if len(a.terms) == 0 || len(b.terms) == 0 {
		if a.text() == b.text() {
			return 1
		}
		return 0
	}
	common, i, j := 0, 0, 0
	for i < len(a.terms) && j < len(b.terms) {
		switch {
		case a.terms[i] == b.terms[j]:
			common++
			i++
			j++
		case a.terms[i] < b.terms[j]:
			i++
		default:
			j++
		}
	}
	return float64(common) / float64(min(len(a.terms), len(b.terms)))
}
