//go:build !nosdk

package provider

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tidings/tidings/jobs/model"
)

// bound is what the bound on a model's output may be and how it is called, as far
// as refusals have taught it. They are all there is to learn it from: models behind
// one address differ, and none says beforehand. What was learnt from one refusal
// holds for all later requests of this process.
type bound struct {
	mu sync.Mutex
	// names are those not refused so far, the one to use first; without any, a
	// request has no bound.
	names []string
	most  int64 // what the model writes at most, 0 if unknown
	// window is what text and output may have together, 0 if unknown, and rate how
	// many tokens a byte of text had in the request that was over it.
	window int64
	rate   float64
}

// leastOutput is the shortest bound that leaves room for a document. A smaller one
// is not asked for: the input leaves too little room.
const leastOutput = 512

// of is the name and size of the bound that a request is sent with; without a name
// it has none.
func (b *bound) of(r model.Request) (name string, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size = int64(r.MaxOutputTokens)
	if size <= 0 || len(b.names) == 0 {
		return "", 0
	}
	if b.most > 0 {
		size = min(size, b.most)
	}
	if b.window > 0 {
		input := int64(math.Ceil(b.rate * float64(length(r))))
		size = min(size, max(b.window-input, leastOutput))
	}
	return b.names[0], size
}

func length(r model.Request) int { return len(r.System) + len(r.Prompt) }

// sentWith is how a request was sent, which what others have learnt since does not
// change.
type sentWith struct {
	name string
	size int64
}

// refused learns from a refusal, and tells whether the request would now be sent
// differently. It never learns the same twice, so that this ends.
func (b *bound) refused(r model.Request, sent sentWith, s said) bool {
	if sent.name == "" {
		return false
	}
	b.learn(r, sent, strings.ToLower(s.text))
	name, size := b.of(r)
	return name != sent.name || size < sent.size
}

func (b *bound) learn(r model.Request, sent sentWith, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if window, input := windowIn(text, sent.size); window > 0 {
		if left := window - input; left >= leastOutput && left < sent.size && length(r) > 0 {
			b.window, b.rate = window, float64(input)/float64(length(r))
		}
		return
	}
	if !mentionsBound(strings.ReplaceAll(text, "_", " ")) {
		return
	}
	most := sizeIn(text, sent.size)
	unknown := anyOf(text, "unsupported param", "unsupported_param", "unrecognized", "unknown", "unexpected", "extra inputs", "extra_forbidden", "extra fields", "additional properties",
		"not supported", "not support", "n't support", "instead", "cannot find field", "deprecated", "not permitted")
	if unknown && (most == 0 || strings.Contains(text, "instead")) {
		b.names = slices.DeleteFunc(b.names, func(n string) bool { return n == sent.name })
	} else if most > 0 && (b.most == 0 || most < b.most) {
		b.most = most
	}
}

// mentionsBound tells whether a message, in lower case with spaces for underscores,
// speaks of the bound on the output.
func mentionsBound(text string) bool {
	return anyOf(text, "max tokens", "max completion tokens", "max new tokens", "max output tokens", "maxoutputtokens", "maxtokens", "maximum tokens", "output tokens", "completion tokens")
}

const numberText = `(\d[\d,_]*)`

// windowIn finds how many tokens a model takes together and how many of them the
// input has, if a message has both; size is the bound it was sent with.
func windowIn(text string, size int64) (window, input int64) {
	number := func(pattern string) int64 {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			if n := integer(strings.ReplaceAll(m[1], "_", "")); n > 0 {
				return n
			}
		}
		return 0
	}
	if m := regexp.MustCompile(numberText + `\s*\+\s*` + numberText + `\s*>\s*` + numberText).FindStringSubmatch(text); m != nil {
		return integer(m[3]), integer(m[1])
	}
	window = number(`(?:context (?:length|limit|window|size)|max_new_tokens.{0,3} must be <=?)\D{0,40}?` + numberText)
	input = number(numberText + `\s*(?:tokens\s*)?(?:in (?:the|your) (?:messages?|prompt|input)|of (?:the )?(?:text )?(?:input|prompt)|.?(?:text |input|prompt).{0,2}\s*tokens)`)
	if total := number(`requested (?:about |a total of )?` + numberText + ` tokens`); input == 0 && total > size {
		input = total - size
	}
	if input == 0 {
		return 0, 0
	}
	return window, input
}

// sizeIn finds the largest bound that a message allows: the largest number in it
// that is below the one that was refused. 0 is none.
func sizeIn(text string, refused int64) (most int64) {
	for _, m := range regexp.MustCompile(`\d{1,3}(?:,\d{3})+\b|[\w.-]+`).FindAllStringIndex(text, -1) {
		word := strings.Trim(text[m[0]:m[1]], ".")
		if strings.Trim(word, "0123456789,_") != "" {
			continue // a name, such as a model's
		}
		n := integer(strings.ReplaceAll(word, "_", ""))
		before, after := strings.TrimRight(text[:m[0]], " `'\""), text[m[1]:min(len(text), m[1]+15)]
		if strings.Contains(after, "exclusive") || strings.HasSuffix(before, "less than") || strings.HasSuffix(before, "lower than") {
			n--
		}
		if leastOutput <= n && n < refused {
			most = max(most, n)
		}
	}
	return most
}
