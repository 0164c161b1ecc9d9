package model

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/tidings/tidings/jobs/retry"
)

// TypeInputTooLong is the Error.Type of material that is over the model's window
// and was refused before a call.
const TypeInputTooLong = "input_too_long"

// tooLong refuses a request that cannot fit into the model's window, before
// anything is spent on it. window 0 is unknown: then the provider has to say it.
func tooLong(window int64, r Request) *Error {
	if window == 0 {
		return nil
	}
	n := LeastTokens(r.System) + LeastTokens(r.Prompt)
	if n <= window {
		return nil
	}
	return &Error{Kind: retry.InvalidInput, Type: TypeInputTooLong,
		Advice: fmt.Sprintf("the input has at least %d tokens, the model takes %d", n, window)}
}

// LeastTokens is a number of tokens that a text has at least with any of the
// usual tokenizers, counted on the low side: what it calls too long is too long,
// what passes may still be. None of them joins words over white space, so each
// word is one; a long word, or the unbroken text of a script without spaces, is
// one for every 16 bytes, which are five characters of Chinese.
func LeastTokens(text string) (n int64) {
	const bytesPerToken = 16
	word := 0
	end := func() {
		n += int64(word+bytesPerToken-1) / bytesPerToken
		word = 0
	}
	for _, r := range text {
		if unicode.IsSpace(r) {
			end()
			continue
		}
		word += utf8.RuneLen(r)
	}
	end()
	return n
}

// mostTokens is a cautious estimate of the tokens of a text, for what a call may
// cost: one for every three bytes of ASCII, where prose has one for four to five,
// and one for every other character.
func mostTokens(text string) (n int64) {
	ascii := int64(0)
	for _, r := range text {
		if r < utf8.RuneSelf {
			ascii++
		} else {
			n++
		}
	}
	return n + (ascii+2)/3
}
