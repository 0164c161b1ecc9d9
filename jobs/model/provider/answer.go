//go:build !nosdk

package provider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/tidings/tidings/jobs/model"
)

// answer is what is gathered of a success, which comes whole or as a stream of
// pieces: not always as it was asked for, and not always with the content type or
// the event names it should have. What it is, its bytes say.
type answer struct {
	fold func(json.RawMessage, *answer)

	text    strings.Builder
	model   string
	stopped string // why it ended, in the vendor's word
	usage   model.Usage
	counts  anthropicCounts // what usage was made of
	opened  bool            // something of the vendor's form was in it
	begun   bool            // a piece of the text came
	done    bool            // it says itself that it is complete
	stream  bool            // it came in pieces
	fault   json.RawMessage
	last    json.RawMessage // the last object, whatever it was
}

// read takes in an answer until its end, an error in it, or what it says itself is
// its end. A nil error does not mean that it is complete.
func (a *answer) read(body io.Reader) error {
	limited := &io.LimitedReader{R: body, N: maxAnswer}
	in := bufio.NewReaderSize(limited, 16<<10)
	err := a.begin(in)
	if limited.N <= 0 {
		return errAnswerTooLong
	}
	return err
}

func (a *answer) begin(in *bufio.Reader) error {
	for { // gateways keep a connection alive with white space
		r, _, err := in.ReadRune()
		if err != nil {
			return ended(err)
		}
		if strings.ContainsRune(" \t\r\n\ufeff", r) {
			continue
		}
		_ = in.UnreadRune() // a rune was read just now
		if r == '{' || r == '[' {
			whole, err := io.ReadAll(in)
			a.piece(whole)
			return err
		}
		return a.events(in)
	}
}

// events reads a stream by its data; the names of events say nothing that their
// data does not. What is neither, such as a page of HTML, has no data.
func (a *answer) events(in *bufio.Reader) error {
	var data []byte
	for {
		line, err := in.ReadBytes('\n')
		line = bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			a.stream = true
			data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
		if len(line) == 0 || err != nil {
			if len(data) > 0 && (!a.piece(data) || a.done || a.fault != nil) {
				return nil
			}
			data = data[:0]
		}
		if err != nil {
			return ended(err)
		}
	}
}

// piece takes in the objects of a whole answer or of one event, and tells whether
// it could read them.
func (a *answer) piece(data []byte) bool {
	in := json.NewDecoder(bytes.NewReader(data))
	for {
		var one json.RawMessage
		if err := in.Decode(&one); err != nil {
			a.done = a.done || string(bytes.TrimSpace(data)) == "[DONE]"
			return errors.Is(err, io.EOF) || a.done
		}
		var many []json.RawMessage
		if json.Unmarshal(one, &many) != nil {
			many = []json.RawMessage{one}
		}
		for _, object := range many {
			a.last = object
			if faulty(object) {
				a.fault = object
			}
			a.fold(object, a)
		}
	}
}

// faulty tells whether an object is an error, whatever else it holds.
func faulty(object json.RawMessage) bool {
	var o struct {
		Type     any
		Error    json.RawMessage
		BaseResp struct {
			StatusCode any `json:"status_code"`
		} `json:"base_resp"`
	}
	if json.Unmarshal(object, &o) != nil {
		return false
	}
	switch string(o.Error) {
	case "", "null", "false", `""`, "{}", "[]":
	default:
		return true
	}
	n, isNumber := o.BaseResp.StatusCode.(float64) // MiniMax
	return o.Type == "error" || isNumber && n != 0
}

// ended is the error of an answer that came to its end, which is none.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// contentText is the text of a message's content: a string, or parts of which only
// those of text count, or, from some gateways, the JSON object that was asked for.
func contentText(content json.RawMessage) string {
	if text, ok := jsonString(content); ok {
		return text
	}
	var parts []json.RawMessage
	if json.Unmarshal(content, &parts) != nil {
		if bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
			return string(content)
		}
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		var part struct {
			Type    string
			Text    json.RawMessage
			Thought bool // Gemini's word for a part of its thinking
		}
		if text, ok := jsonString(p); ok {
			b.WriteString(text)
		} else if json.Unmarshal(p, &part) == nil && !part.Thought && (part.Type == "" || part.Type == "text" || part.Type == "output_text") {
			var inner struct{ Value string }
			if text, ok := jsonString(part.Text); ok {
				b.WriteString(text)
			} else if json.Unmarshal(part.Text, &inner) == nil {
				b.WriteString(inner.Value)
			}
		}
	}
	return b.String()
}

func jsonString(value json.RawMessage) (text string, ok bool) {
	ok = json.Unmarshal(value, &text) == nil
	return text, ok
}
