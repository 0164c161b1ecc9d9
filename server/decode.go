package server

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
)

const (
	maxSessionID = 128
	maxKey       = 255
	maxLanguage  = 35
	maxSimulate  = 100
	maxCursor    = 1<<53 - 1 // what every JSON reader can hold
)

func alphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

func only(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

// validSession refuses . and .. as well: whoever resolves an address with them
// comes to another one.
func validSession(id string) bool {
	return id != "" && id != "." && id != ".." && len(id) <= maxSessionID &&
		only(id, func(b byte) bool { return alphanumeric(b) || strings.IndexByte("._:-", b) >= 0 })
}

// topic reads the session and the workload from the path, for the caller's
// owner. Another owner's session is another topic, so there is nothing to
// check and nothing to tell apart.
func (s *Server) topic(c *gin.Context) (events.Topic, error) {
	session, workload := c.Param("session_id"), c.Param("workload")
	if !validSession(session) {
		return events.Topic{}, &problem{code: codeInvalidSession}
	}
	if _, ok := jobs.WorkloadNamed(workload); !ok {
		return events.Topic{}, &problem{code: codeUnknownWorkload}
	}
	return s.topicFor(callOf(c).who.Owner, session, workload), nil
}

// topicFor is an owner's topic, by the keyed hash if there is a salt.
func (s *Server) topicFor(owner, session, workload string) events.Topic {
	if s.o.OwnerSalt != "" && owner != "" {
		mac := hmac.New(sha256.New, []byte(s.o.OwnerSalt))
		mac.Write([]byte(owner))
		owner = string(mac.Sum(nil))
	}
	return events.NewTopic(owner, session, workload)
}

// switched reads a yes-or-no query parameter.
func switched(c *gin.Context, name string) (bool, error) {
	switch c.Query(name) {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return false, &problem{code: codeInvalidQuery, field: name, hint: "true or false"}
}

// cursor is where a client wants to resume.
type cursor struct {
	given bool
	known bool // it has the form of one of ours
	seq   int64
}

// cursorOf reads the header, which a reconnecting browser keeps current, or
// else the query, for clients and gateways that cannot send it.
func cursorOf(header, query string) cursor {
	raw := header
	if raw == "" {
		raw = query
	}
	if raw == "" {
		return cursor{}
	}
	if !only(raw, func(b byte) bool { return b >= '0' && b <= '9' }) {
		return cursor{given: true}
	}
	seq, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || seq > maxCursor {
		return cursor{given: true}
	}
	return cursor{given: true, known: true, seq: seq}
}

// idempotencyKey reads the header; "" when there is none.
func idempotencyKey(h http.Header) (string, error) {
	all := h.Values("Idempotency-Key")
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1, all[0] == "", len(all[0]) > maxKey, !only(all[0], func(b byte) bool { return b >= ' ' && b <= '~' }):
		return "", &problem{code: codeInvalidKey, hint: "once, 1 to 255 printable ASCII characters"}
	}
	return all[0], nil
}

// plausible tells whether s looks like a BCP 47 tag. The model is told the
// language, so free text has no business here.
func plausible(s string) bool {
	if len(s) > maxLanguage {
		return false
	}
	for i, part := range strings.Split(s, "-") {
		if i == 0 && (len(part) < 2 || len(part) > 3 || !only(part, letter)) {
			return false
		}
		if len(part) < 1 || len(part) > 8 || !only(part, alphanumeric) {
			return false
		}
	}
	return true
}

func letter(b byte) bool { return alphanumeric(b) && (b < '0' || b > '9') }

// maxValues is how many values a body may hold: room for the most messages that
// an input may have, each an object with two fields. A decoded value takes up to
// 40 times its bytes, so a body of 1 MiB made of numbers would take 40 MB.
const maxValues = 4*jobs.MaxMessages + 1000

// decodedAtOnce bounds the bytes of all bodies that are being decoded. Decoding
// takes milliseconds; who comes meanwhile waits.
const decodedAtOnce = 8 << 20

// decoded reads a JSON body and lets decode make something of it.
func (s *Server) decoded(c *gin.Context, decode func([]byte) error) error {
	b, err := s.body(c)
	if err != nil {
		return err
	}
	if err := s.decoding.Acquire(c.Request.Context(), int64(len(b))); err != nil {
		return err
	}
	defer s.decoding.Release(int64(len(b)))
	if err := oneObject(b); err != nil {
		return err
	}
	return decode(b)
}

// oneObject looks a body through without keeping anything, and refuses what is
// not one JSON object, has too many values, or is read differently by different
// readers: a name given twice, half of a surrogate pair.
func oneObject(b []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if d.PeekKind() != '{' {
		return &problem{code: codeInvalidBody, hint: "not one JSON object"}
	}
	for values := 0; ; values++ {
		if values > maxValues {
			return &problem{code: codeInvalidBody, hint: fmt.Sprintf("more than %d values", maxValues)}
		}
		switch _, err := d.ReadToken(); {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return &problem{code: codeInvalidBody, hint: "a name is given twice"}
		case err != nil:
			return &problem{code: codeInvalidBody, hint: "not JSON, or text that is not Unicode"}
		case d.StackDepth() == 0:
			if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
				return &problem{code: codeInvalidBody, hint: "not one JSON object"}
			}
			return nil
		}
	}
}

// body reads a JSON body within its size.
func (s *Server) body(c *gin.Context) ([]byte, error) {
	if err := bodyType(c.Request.Header); err != nil {
		return nil, err
	}
	if c.Request.ContentLength > jobs.MaxInputBytes {
		return nil, &problem{code: codeBodyTooLarge}
	}
	b, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, jobs.MaxInputBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, &problem{code: codeBodyTooLarge}
		}
		if s.closing.Err() != nil {
			return nil, &problem{code: codeDraining}
		}
		return nil, &problem{code: codeInvalidBody, hint: "the body ended early"}
	}
	return b, nil
}

// bodyType accepts JSON. Everything else is a sign that the bytes are not what
// we would read them as, or that a page sent them without asking first.
func bodyType(h http.Header) error {
	types := h.Values("Content-Type")
	if len(types) != 1 || len(h.Values("Content-Encoding")) > 0 && !strings.EqualFold(h.Get("Content-Encoding"), "identity") {
		return &problem{code: codeUnsupportedType}
	}
	media, params, err := mime.ParseMediaType(types[0])
	if charset, ok := params["charset"]; err != nil || media != "application/json" || ok && !strings.EqualFold(charset, "utf-8") {
		return &problem{code: codeUnsupportedType}
	}
	return nil
}

// submitBody reads {"input":…,"language":…,"simulate":…}. Unknown fields are
// refused: a misspelt "language" must not pass in silence.
func submitBody(b []byte) (sub jobs.Submit, simulate bool, err error) {
	fields, err := object(b, "")
	if err != nil {
		return sub, false, err
	}
	for name, raw := range sorted(fields) {
		switch name {
		case "input":
			sub.Input, err = inputOf(raw)
		case "language":
			if err = value(raw, name, &sub.Language); err == nil && sub.Language != "" && !plausible(sub.Language) {
				err = invalid(name, "not a BCP 47 tag")
			}
		case "simulate":
			simulate = true
			if err = value(raw, name, &sub.Simulate); err == nil && len(sub.Simulate) > maxSimulate {
				err = invalid(name, "too many steps")
			}
		default:
			err = unknown("", name)
		}
		if err != nil {
			return sub, simulate, err
		}
	}
	if _, ok := fields["input"]; !ok {
		return sub, simulate, invalid("input", "missing")
	}
	return sub, simulate, nil
}

func inputOf(raw json.RawMessage) (in jobs.Input, err error) {
	fields, err := object(raw, "input")
	if err != nil {
		return in, err
	}
	for name, raw := range sorted(fields) {
		switch name {
		case "text":
			err = value(raw, "input.text", &in.Text)
		case "messages":
			in.Messages, err = messagesOf(raw)
		default:
			err = unknown("input.", name)
		}
		if err != nil {
			return in, err
		}
	}
	if given(fields["text"]) != nil && given(fields["messages"]) != nil {
		return in, invalid("input", "text and messages; send one of them")
	}
	return in, nil
}

func messagesOf(raw json.RawMessage) ([]model.Message, error) {
	var list []json.RawMessage
	if err := value(raw, "input.messages", &list); err != nil {
		return nil, err
	}
	if len(list) > jobs.MaxMessages {
		return nil, invalid("input.messages", fmt.Sprintf("more than %d messages", jobs.MaxMessages))
	}
	messages := make([]model.Message, len(list))
	for i, raw := range list {
		at := fmt.Sprintf("input.messages[%d]", i)
		fields, err := object(raw, at)
		if err != nil {
			return nil, err
		}
		for name, raw := range sorted(fields) {
			switch name {
			case "role":
				err = value(raw, at+".role", &messages[i].Role)
			case "content":
				err = value(raw, at+".content", &messages[i].Content)
			default:
				err = unknown(at+".", name)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return messages, nil
}

// object splits a JSON object into its fields; at names it, "" the whole body.
func object(raw []byte, at string) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(raw, &fields)
	switch {
	case err == nil && fields != nil:
		return fields, nil
	case at == "" || isSyntax(err):
		return nil, &problem{code: codeInvalidBody, hint: "not one JSON object"}
	}
	return nil, invalid(at, "not an object")
}

// value reads one field. null is the same as leaving it away.
func value(raw json.RawMessage, at string, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return invalid(at, "of the wrong type")
	}
	return nil
}

// wholeNumber reads a number from 0 to limit, nil when it is null. 12.0 and 1e2
// are integers in JSON, too.
func wholeNumber(raw json.RawMessage, at string, limit int64) (*int64, error) {
	var n *float64
	if err := value(raw, at, &n); err != nil || n == nil {
		return nil, err
	}
	if *n != math.Trunc(*n) || *n < 0 || *n > float64(limit) {
		return nil, invalid(at, fmt.Sprintf("not a whole number from 0 to %d", limit))
	}
	whole := int64(*n)
	return &whole, nil
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax)
}

// sorted walks fields in one order, so that the same body gets the same answer.
func sorted(fields map[string]json.RawMessage) func(func(string, json.RawMessage) bool) {
	return func(yield func(string, json.RawMessage) bool) {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if !yield(name, bytes.TrimSpace(fields[name])) {
				return
			}
		}
	}
}

func invalid(field, hint string) error {
	return &problem{code: string(jobs.CodeInvalidField), field: field, hint: hint}
}

// unknown names a field that we do not know, as far as the name is fit to be
// sent back.
func unknown(prefix, name string) error {
	if name == "" || len(name) > 40 || !only(name, func(b byte) bool { return alphanumeric(b) || b == '_' || b == '-' }) {
		name = "?"
	}
	return invalid(prefix+name, "unknown field")
}
