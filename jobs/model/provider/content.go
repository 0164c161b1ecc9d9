//go:build !nosdk

package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// object finds the one JSON object that an answer holds, out of what models put
// around it: thinking, a fence, sentences, a byte order mark, a string of JSON.
// Nil if there is none, if the answer breaks off inside it, or if there are several
// that could be meant. Whether it fits the schema altogether is for others to
// check; here its required members decide between objects.
func object(text string, schema json.RawMessage) json.RawMessage {
	text = strings.Trim(text, " \t\r\n\ufeff\u200b")
	var inner string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &inner) == nil {
		text = inner
	}
	answer, thought := afterThinking(text)
	if found := only(answer, schema); found != nil || thought == unclosed {
		return found
	}
	if thought == none {
		return nil
	}
	return only(text, schema) // what looked like the end of thinking may be part of a text
}

const (
	none = iota
	closed
	unclosed
)

// afterThinking is an answer without the part in which a model thinks aloud. The
// opening tag is often missing, because the prompt's template has it.
func afterThinking(text string) (string, int) {
	ends := regexp.MustCompile(`(?i)</(?:[a-z]+:)?(?:think|thinking|thought|reasoning|reflection)>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>`).FindAllStringIndex(text, -1)
	if len(ends) > 0 {
		return text[ends[len(ends)-1][1]:], closed
	}
	if regexp.MustCompile(`(?i)^\s*(?:<(?:[a-z]+:)?(?:think|thinking|thought|reasoning|reflection)>|\[THINK\]|◁think▷)`).MatchString(text) {
		return "", unclosed
	}
	return text, none
}

// only is the one object of a text; of several, the one that has the schema's
// required members.
func only(text string, schema json.RawMessage) json.RawMessage {
	var need struct{ Required []string }
	_ = json.Unmarshal(schema, &need) // without a schema nothing is required
	all := objects(text)
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(o json.RawMessage) bool { return !has(o, need.Required) })
	}
	if len(all) != 1 {
		return nil
	}
	return all[0]
}

// objects are the different JSON objects of a text, those inside of others left
// out.
func objects(text string) (all []json.RawMessage) {
	const most = 64 // more braces that open no object are no answer
	for range most {
		start := strings.IndexByte(text, '{')
		if start < 0 {
			break
		}
		text = text[start:]
		in := json.NewDecoder(strings.NewReader(text))
		var one json.RawMessage
		if err := in.Decode(&one); errors.Is(err, io.ErrUnexpectedEOF) {
			break // it breaks off in here; what is inside is not the answer
		} else if err != nil {
			text = text[1:]
			continue
		}
		text = text[in.InputOffset():]
		if !slices.ContainsFunc(all, func(o json.RawMessage) bool { return bytes.Equal(o, one) }) {
			all = append(all, one)
		}
	}
	return all
}

func has(object json.RawMessage, names []string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return false
	}
	for _, name := range names {
		if _, ok := members[name]; !ok {
			return false
		}
	}
	return true
}
