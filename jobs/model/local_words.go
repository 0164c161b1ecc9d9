package model

import (
	"strings"
	"sync"
)

// lexicon is the little the local model knows about one language. Everything
// works without it, by counting alone; on texts of ten sentences, where a word
// seldom occurs twice, counting cannot tell "with" from "database", and the
// lists clearly help. Lists are short on purpose.
type lexicon struct {
	tag string
	// stop holds words without a topic of their own, greetings and thanks
	// included: a sentence made of them scores low by itself.
	stop map[string]bool
	// ordinals: "3." before a noun is a day or a rank, not an end.
	ordinals bool
	// open are first words that point back at a sentence the reader may not see.
	open map[string]bool
	// ask are first words of a question, whatever it ends with.
	ask map[string]bool
	// do are first words of an instruction.
	do map[string]bool
	// The others occur anywhere; see cue.
	problem, request, decision, must []cue
}

// cue is a phrase between blanks, or the beginning of a word, or, in languages
// written without blanks, any occurrence.
type cue string

// abbreviations end in a full stop that ends no sentence, in any language.
var abbreviations = wordSet(`mr mrs ms dr prof st vs fig approx dept est inc ltd jr sr bzw ca evtl ggf nr str usw
	bl mht mvh kl tlf avd kap jf pga dvs osv f.eks bla ang evt inkl min sek hr fr frk mme mlle cf env art sra sres
	dott sig ing tel itd itp tzn np por esim ym jne em bijv dhr mevr gen col sgt rev hon vol pp ed eds`)

var lexicons = sync.OnceValue(func() map[string]*lexicon {
	all := map[string]*lexicon{}
	for _, s := range lexiconSources {
		all[s.tag] = &lexicon{
			tag: s.tag, stop: wordSet(s.stop + " " + s.open + " " + s.ask), ordinals: s.ordinals,
			open: wordSet(s.open), ask: wordSet(s.ask), do: wordSet(s.do),
			problem: cues(s.problem), request: cues(s.request), decision: cues(s.decision), must: cues(s.must),
		}
	}
	return all
})

func wordSet(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

func cues(s string) []cue {
	var out []cue
	for _, c := range strings.Split(s, ",") {
		if c = strings.Join(strings.Fields(c), " "); c != "" {
			out = append(out, cue(c))
		}
	}
	return out
}

// countCues counts the cues that occur in a sentence as folded by foldWords, or as it
// stands for a language written without blanks.
func countCues(list []cue, folded string) int {
	n := 0
	for _, c := range list {
		s := string(c)
		switch {
		case s[0] >= 0xE1: // kana, Han, Thai: no blanks around words
			if strings.Contains(folded, s) {
				n++
			}
		case strings.HasSuffix(s, "*"):
			if strings.Contains(folded, " "+s[:len(s)-1]) {
				n++
			}
		default:
			if strings.Contains(folded, " "+s+" ") {
				n++
			}
		}
	}
	return n
}
