package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Case is one script, its client's settings and what is expected of the client.
type Case struct {
	Name      string            `json:"-"`
	Note      string            `json:"note"`
	Variants  []Variant         `json:"variants"`
	Client    Settings          `json:"client"`
	Actions   []Action          `json:"actions"`
	Until     map[string]any    `json:"until"`
	Exchanges []Exchange        `json:"exchanges"`
	States    []map[string]any  `json:"-"`
	Results   []map[string]any  `json:"-"`
	files     fs.FS             // where steps find their recordings
	values    map[string]string // of the variant
}

// Variant is one of several cases made from one file.
type Variant struct {
	Name string            `json:"name"`
	Set  map[string]string `json:"set"`
}

// Settings are what a driver makes its client with. Tokens are given out one after
// the other: the next when the client says that the last was refused.
type Settings struct {
	SessionID  string   `json:"session_id"`
	Workload   string   `json:"workload"`
	Language   string   `json:"language,omitempty"`
	WatchdogMS int      `json:"watchdog_ms"`
	Tokens     []string `json:"tokens,omitempty"`
	HTTP2      bool     `json:"http2,omitempty"`    // speaks HTTP/2 without TLS
	Sessions   []string `json:"sessions,omitempty"` // of a list, "id" or "id/workload"
}

// Action is something the user does: retry, dismiss, foreground, cancel, submit,
// document or texts; or nothing, to say how far the client is before the server
// goes on. Some transports drop what they have not handed over when a connection
// breaks, so a cut has to wait for that.
type Action struct {
	When map[string]any `json:"when"`
	Do   string         `json:"do"`
	Text string         `json:"text,omitempty"` // submit
}

// Exchange is one request that is expected and its answer. On is a method and one
// of status, document, retry, job, messages, list.
type Exchange struct {
	On      string            `json:"on"`
	Headers map[string]string `json:"headers"` // "" for a header that must not be there
	Body    map[string]any    `json:"body"`    // fields the JSON body must have
	Answer  Answer            `json:"answer"`
}

// Answer is what the server says. Without a Content-Type it is that of the request's
// usual answer.
type Answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	JSON    json.RawMessage   `json:"json"`
	Steps   []Step            `json:"steps"`
}

// Step is one thing done while an answer is written; exactly one of its fields is
// used, Split goes with the first three.
type Step struct {
	Text  string `json:"text"`
	B64   []byte `json:"b64"`
	File  string `json:"file"`  // in the recorded directory; {{key}} stands for a variant's value
	Split int    `json:"split"` // written in pieces of so many bytes

	PauseMS     int  `json:"pause_ms"`
	AfterAction int  `json:"after_action"` // waits until the client has done so many
	Hold        bool `json:"hold"`         // keeps the stream open until the client drops it
	Cut         bool `json:"cut"`          // breaks the connection in the middle of the body
	Hole        bool `json:"hole"`         // from now on nothing passes on the connection, and nobody is told
}

// LoadCases reads all cases of a directory.
func LoadCases(files fs.FS) (map[string]*Case, error) {
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("no case files")
	}
	cases := make(map[string]*Case)
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(name, ".json")
		expect, err := fs.ReadFile(files, base+".jsonl")
		if err != nil {
			return nil, err
		}
		first, err := readCase(files, base, raw, expect, nil)
		if err != nil {
			return nil, err
		}
		if len(first.Variants) == 0 {
			cases[base] = first
		}
		for _, v := range first.Variants {
			c, err := readCase(files, base+"/"+v.Name, raw, expect, v.Set)
			if err != nil {
				return nil, err
			}
			cases[c.Name] = c
		}
	}
	return cases, nil
}

func readCase(files fs.FS, name string, raw, expect []byte, set map[string]string) (*Case, error) {
	raw, expect = fill(raw, set, true), fill(expect, set, true)
	c := &Case{Name: name, files: files, values: set}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields() // a misspelt step must not become one that does nothing
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if c.Client.SessionID == "" {
		c.Client.SessionID = "abc-123"
	}
	if c.Client.Workload == "" {
		c.Client.Workload = "summary"
	}
	if c.Client.WatchdogMS == 0 {
		c.Client.WatchdogMS = 45_000
	}
	for i, e := range c.Exchanges {
		if _, _, err := c.target(e.On); err != nil {
			return nil, fmt.Errorf("%s: exchange %d: %w", name, i+1, err)
		}
	}
	lines, err := readLines(expect)
	if err != nil {
		return nil, fmt.Errorf("%s.jsonl: %w", name, err)
	}
	state := initial(c.Client.Workload)
	for _, line := range lines {
		if _, ok := line["result"]; ok {
			c.Results = append(c.Results, line)
			continue
		}
		if name, ok := line["session"].(string); ok {
			state = initial(c.workloadOf(name))
		}
		maps.Copy(state, line)
		c.States = append(c.States, maps.Clone(state))
	}
	if len(c.States) == 0 {
		return nil, fmt.Errorf("%s.jsonl: no states", name)
	}
	return c, nil
}

// workloadOf is the workload of a session of a list.
func (c *Case) workloadOf(name string) string {
	if _, workload, ok := strings.Cut(name, "/"); ok {
		return workload
	}
	return c.Client.Workload
}

// initial is the state every case begins with: the first line of its expectations
// may be {}.
func initial(workload string) map[string]any {
	return map[string]any{
		"phase": "loading", "spinner": true, "message_key": "session_" + workload + "_compiling", "retry_attempt": nil,
		"can_retry": false, "can_dismiss": true, "connection": "reconnecting", "last_event_id": "", "outcome": "pending",
		"event": nil, "reason": nil, "message": nil, "counts_down": false, "problem": nil,
	}
}

// fill puts a variant's values in; quoted says that the text is JSON.
func fill(text []byte, set map[string]string, quoted bool) []byte {
	for key, value := range set {
		if quoted {
			raw, err := json.Marshal(value)
			if err != nil {
				panic(err) // a string always has JSON
			}
			value = string(raw[1 : len(raw)-1])
		}
		text = bytes.ReplaceAll(text, []byte("{{"+key+"}}"), []byte(value))
	}
	return text
}

// readLines reads JSON objects that follow each other.
func readLines(text []byte) ([]map[string]any, error) {
	var lines []map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var line map[string]any
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, line)
	}
}

// target is the method and path an exchange is about.
func (c *Case) target(on string) (method, target string, err error) {
	method, what, _ := strings.Cut(on, " ")
	base := "/api/v1/sessions/" + c.Client.SessionID + "/" + c.Client.Workload
	paths := map[string]string{
		"status": base + "/status", "document": base, "retry": base + "/retry", "job": base + "/job",
		"messages": "/api/v1/messages", "list": "/api/v1/status/stream",
	}
	target, ok := paths[what]
	if !ok {
		return "", "", fmt.Errorf("%q names none of %v", on, slices.Sorted(maps.Keys(paths)))
	}
	return method, target, nil
}

// bytes is what a step writes; nil when it does something else.
func (c *Case) bytes(s Step) ([]byte, error) {
	if s.File != "" {
		raw, err := fs.ReadFile(c.files, path.Join("recorded", s.File))
		return fill(raw, c.values, false), err
	}
	if s.B64 != nil {
		return s.B64, nil
	}
	return []byte(s.Text), nil
}
