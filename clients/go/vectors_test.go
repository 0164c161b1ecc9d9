package tidings_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tidings "github.com/tidings/tidings/clients/go"
)

// vectorFiles decodes each file of one format in the vectors' directory. A
// directory without any fails the test: no cases is not a pass.
func vectorFiles[T any](t *testing.T, format string) []T {
	t.Helper()
	dir := os.Getenv("TIDINGS_VECTORS")
	if dir == "" {
		dir = "../vectors"
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var files []T
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var head struct {
			Format  string
			Version int
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if head.Format != format {
			continue
		}
		if head.Version != 1 {
			t.Fatalf("%s: version %d is not known here", name, head.Version)
		}
		var file T
		if err := json.Unmarshal(raw, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("no file of format %s in %s", format, dir)
	}
	return files
}

type parseCase struct {
	Name    string
	Initial string `json:"initial_last_event_id"`
	Chunks  []struct {
		UTF8   string
		Repeat *int
		B64    []byte
	}
	Expect []struct {
		ID, Event string
		Data      expectedText
	}
	LastEventID string `json:"last_event_id"`
	Retry       *int
	Dispatched  []int `json:"dispatched_after_chunk"`
}

func (c parseCase) bytes() [][]byte {
	var chunks [][]byte
	for _, chunk := range c.Chunks {
		n := 1
		if chunk.Repeat != nil {
			n = *chunk.Repeat
		}
		b := chunk.B64
		if b == nil {
			b = []byte(strings.Repeat(chunk.UTF8, n))
		}
		chunks = append(chunks, b)
	}
	return chunks
}

// expectedText is a string, or parts of which some repeat.
type expectedText string

func (e *expectedText) UnmarshalJSON(raw []byte) error {
	var parts struct{ Parts []json.RawMessage }
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(e))
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, part := range parts.Parts {
		one := struct {
			Repeat string
			Count  int
		}{Count: 1}
		target := any(&one)
		if part[0] == '"' {
			target = &one.Repeat
		}
		if err := json.Unmarshal(part, target); err != nil {
			return err
		}
		*e += expectedText(strings.Repeat(one.Repeat, one.Count))
	}
	return nil
}

// some fails the test without a case: nothing has been shown then.
func some[C any](t *testing.T, cases []C) []C {
	t.Helper()
	if len(cases) == 0 {
		t.Fatal("a file without cases")
	}
	return cases
}

func TestVectorsParse(t *testing.T) {
	type file struct{ Cases []parseCase }
	for _, f := range vectorFiles[file](t, "sse-parse") {
		for _, c := range some(t, f.Cases) {
			t.Run(c.Name, func(t *testing.T) {
				chunks := c.bytes()
				joined := slices.Concat(chunks...)
				c.check(t, "as they are", chunks, c.Dispatched)
				c.check(t, "joined", [][]byte{joined}, nil)
				c.check(t, "byte by byte", slices.Collect(slices.Chunk(joined, 1)), nil)
			})
		}
	}
}

func (c parseCase) check(t *testing.T, how string, chunks [][]byte, dispatched []int) {
	t.Helper()
	var got []tidings.Message
	p := tidings.NewParser(c.Initial)
	p.OnMessage = func(m tidings.Message) { got = append(got, m) }
	for i, chunk := range chunks {
		if err := p.Feed(chunk); err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if dispatched != nil && len(got) != dispatched[i] {
			t.Errorf("%s: %d events after chunk %d, want %d", how, len(got), i, dispatched[i])
		}
	}
	if len(got) != len(c.Expect) {
		t.Fatalf("%s: got %d events, want %d", how, len(got), len(c.Expect))
	}
	for i, want := range c.Expect {
		if want := (tidings.Message{ID: want.ID, Event: want.Event, Data: string(want.Data)}); got[i] != want {
			t.Errorf("%s: event %d is %.200q, want %.200q", how, i, got[i], want)
		}
	}
	if got := p.LastEventID(); got != c.LastEventID {
		t.Errorf("%s: last event id %q, want %q", how, got, c.LastEventID)
	}
	ms, ok := p.Retry()
	if ok != (c.Retry != nil) || ok && ms != *c.Retry {
		t.Errorf("%s: retry %d (%t), want %v", how, ms, ok, c.Retry)
	}
}

type vectorState struct {
	Phase         tidings.Phase      `json:"phase"`
	Spinner       bool               `json:"spinner"`
	MessageKey    *string            `json:"message_key"`
	RetryAttempt  *int               `json:"retry_attempt"`
	CanRetry      bool               `json:"can_retry"`
	CanDismiss    bool               `json:"can_dismiss"`
	Connection    tidings.Connection `json:"connection"`
	ResubscribeAt *int64             `json:"resubscribe_at_ms"`
	LastEventID   string             `json:"last_event_id"`
	Outcome       tidings.Result     `json:"outcome"`
}

func (v vectorState) state() tidings.State {
	s := tidings.State{
		Phase: v.Phase, Spinner: v.Spinner, CanRetry: v.CanRetry, CanDismiss: v.CanDismiss,
		Connection: v.Connection, LastEventID: v.LastEventID, Outcome: v.Outcome, ResubscribeAt: -1,
	}
	if v.MessageKey != nil {
		s.MessageKey = *v.MessageKey
	}
	if v.RetryAttempt != nil {
		s.RetryAttempt = *v.RetryAttempt
	}
	if v.ResubscribeAt != nil {
		s.ResubscribeAt = *v.ResubscribeAt
	}
	return s
}

type machineFile struct {
	Initial struct {
		Expect  vectorState
		Effects []tidings.Effect
	}
	Cases []struct {
		Name    string
		Session string `json:"session_id"`
		Steps   []struct {
			Input struct {
				At     int64 `json:"at_ms"`
				Kind   tidings.Kind
				Event  string
				Data   string
				ID     *string
				MS     int
				Status int
			}
			Expect  vectorState
			Effects []tidings.Effect
		}
	}
}

func TestVectorsMachine(t *testing.T) {
	for _, f := range vectorFiles[machineFile](t, "status-machine") {
		for _, c := range some(t, f.Cases) {
			t.Run(c.Name, func(t *testing.T) {
				m, effects := tidings.NewMachine(c.Session, "summary")
				checkStep(t, -1, &m, effects, f.Initial.Expect, f.Initial.Effects)
				for i, step := range c.Steps {
					in := tidings.Input{
						At: step.Input.At, Kind: step.Input.Kind, Millis: step.Input.MS, Status: step.Input.Status,
						Message: tidings.Message{Event: step.Input.Event, Data: step.Input.Data},
						KeepID:  step.Input.ID == nil,
					}
					if step.Input.ID != nil {
						in.Message.ID = *step.Input.ID
					}
					checkStep(t, i, &m, m.Apply(in), step.Expect, step.Effects)
				}
			})
		}
	}
}

func checkStep(t *testing.T, i int, m *tidings.Machine, effects []tidings.Effect, want vectorState, wantEffects []tidings.Effect) {
	t.Helper()
	if got, want := m.State(), want.state(); got != want {
		t.Errorf("step %d: state\n got %+v\nwant %+v", i, got, want)
	}
	if !slices.Equal(effects, wantEffects) {
		t.Errorf("step %d: effects %v, want %v", i, effects, wantEffects)
	}
}
