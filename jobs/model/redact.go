package model

import (
	"regexp"
	"slices"
	"strings"
)

// mostMessage is how many bytes of a message are kept.
const mostMessage = 240

// Redact makes of a provider's or a worker's message what may be kept of it: the
// words that errors are written in, short numbers, and the names in keep, such as
// the model's. Everything else could be a part of a prompt, an answer or a key, and
// becomes "…"; so what is left is what is known to be safe, and not what a pattern
// forgot. It is bounded, on one line, and the same each time.
func Redact(message string, keep ...string) string {
	known := vocabulary()
	var out []string
	size := 0
	for _, word := range regexp.MustCompile(`[^\s]+`).FindAllString(message[:min(len(message), 4*mostMessage)], -1) {
		bare := strings.Trim(word, "\"'`.,:;!?()[]{}<>“”‘’")
		switch {
		case bare == "":
			continue
		case slices.Contains(keep, bare):
			word = bare
		case regexp.MustCompile(`^[\d.,]{1,9}(?:s|ms|m|h|k|%)?$`).MatchString(bare):
			word = strings.Trim(word, "\"'`()[]{}<>“”‘’")
		case known[strings.ToLower(bare)]:
			word = strings.Trim(word, "\"'`()[]{}<>“”‘’")
		default:
			word = "…"
			if len(out) > 0 && out[len(out)-1] == word {
				continue
			}
		}
		if size += len(word) + 1; size > mostMessage {
			break
		}
		out = append(out, word)
	}
	if !slices.ContainsFunc(out, func(w string) bool { return w != "…" }) {
		return ""
	}
	return strings.Join(out, " ")
}

// vocabulary is what the messages of errors are made of. None of its words says
// anything about what a user sent.
func vocabulary() map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(`
a above access account active after again all allocation allowed already also an and any api are argument at authentication available
back bad balance be because been below bearer billing body bound budget busy but by call calls can cannot capacity cent change check client code completion
concurrent config configuration connect connection content context contact could country credential credentials credit credits current currently
daily day days deadline decommissioned default delete denied dependency deployment deprecated details did disabled does doesn't down due during
either email empty enable enabled endpoint engine enough error errors exceed exceeded exceeds exhausted exist expected expired
fail failed failure fewer field fields filter filtered fewest first flagged for forbidden format free from full funds
gateway generate generation given go got had has have header higher hour hours http id if in incorrect increase inference input insufficient instead
internal into invalid is it its json key language large later least length less limit limits load location long longer low lower malformed many max
maximum max_tokens max_completion_tokens maxoutputtokens message messages method minute minutes missing mode model models month monthly more most must
name near need needs network no none not now number object of off on only open operation or organization out output over overdue overloaded own page
parameter parameters parse partial paid pay payment per permission permitted plan please policy possible previous processing project prompt provided provider providers
quota range rate reach reached read received recharge reduce refused region request requested requests require required requires reset resets resource response
response_format result retired retry retrying role run same schema second seconds see server service set short should size slow soon spend spending
start started status stop stopped storage stream string such support supported supports suspended system team temporarily territory text than that the then there this
throttled throttling tier time timed timeout to today token tokens too total traffic trial try trying type unable unauthorized unavailable unexpected unknown
unprocessable unrecognized unsupported up upgrade upstream usage use used user uses using valid value version via wait was way we week weekly went were when which while will
window with within without worker write wrong year you your yours`) {
		all[word] = true
	}
	return all
}
