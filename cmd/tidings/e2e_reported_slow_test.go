//go:build slow

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// reported is a case of what providers and gateways were seen to answer: the package
// of the adapters reads the same file in virtual time; here the program is asked.
type reported struct {
	ID, Name, Adapter, Workload, Input string
	Settings                           map[string]string
	Answers                            []struct {
		When    map[string]any
		Status  int
		Headers map[string]string
		Body    json.RawMessage
	}
	Expect map[string]any
}

// received is one call as the stand-in saw it.
type received struct {
	at   time.Time
	text string // the strings of the request
}

// reportedStandin answers as a case says.
type reportedStandin struct {
	*httptest.Server
	mu   sync.Mutex
	seen []received
}

func newReportedStandin(t *testing.T, c reported) *reportedStandin {
	s := &reportedStandin{}
	next := 0
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var sent map[string]any
		_ = json.Unmarshal(body, &sent)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, received{time.Now(), strings.Join(stringsIn(sent), "\n")})
		config, _ := sent["generationConfig"].(map[string]any)
		bound := 0.0
		for _, v := range []any{sent["max_tokens"], sent["max_completion_tokens"], config["maxOutputTokens"]} {
			if n, ok := v.(float64); ok {
				bound = n
			}
		}
		pick, plain := -1, []int{}
		for i, a := range c.Answers {
			has, _ := a.When["has"].(string)
			over, limited := a.When["bound_over"].(float64)
			if a.When == nil {
				plain = append(plain, i)
			} else if pick < 0 && (has != "" && sent[has] != nil || limited && bound > over) {
				pick = i
			}
		}
		if pick < 0 {
			pick = plain[min(next, len(plain)-1)]
			next++
		}
		a := c.Answers[pick]
		fill := func(text string) string {
			return regexp.MustCompile(`\{(bound|now_ms|now)(\+\d+)?\}`).ReplaceAllStringFunc(text, func(m string) string {
				name, more, _ := strings.Cut(strings.Trim(m, "{}"), "+")
				n, _ := strconv.ParseInt(more, 10, 64)
				return strconv.FormatInt(n+map[string]int64{"bound": int64(bound), "now": time.Now().Unix(), "now_ms": time.Now().UnixMilli()}[name], 10)
			})
		}
		text := string(a.Body)
		var plainText string
		if json.Unmarshal(a.Body, &plainText) == nil {
			text = plainText
		}
		w.Header()["Content-Type"] = nil // all that is sent is the case's own
		w.Header()["Date"] = nil
		for name, value := range a.Headers {
			w.Header().Set(name, fill(value))
		}
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, fill(text))
	}))
	t.Cleanup(s.Close)
	return s
}

func stringsIn(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			all = append(all, stringsIn(one)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, stringsIn(v[name])...)
		}
	}
	return all
}

func (s *reportedStandin) arrivals() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// takes tells whether a value is the one that is wanted, or one of several.
func takes(want any, got string) bool {
	list, ok := want.([]any)
	return want == nil || want == got || ok && slices.Contains(list, any(got))
}

// TestReportedAnswersThroughTheProgram asks the whole program what comes of each case, with the
// provider's stand-in counting the calls.
func TestReportedAnswersThroughTheProgram(t *testing.T) {
	file, err := os.ReadFile("../../jobs/model/provider/testdata/reported.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []reported
	if err := json.Unmarshal(file, &cases); err != nil || len(cases) < 53 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.ID+"-"+c.Name, func(t *testing.T) {
			t.Parallel()
			standin := newReportedStandin(t, c)
			base := standin.URL
			if c.Adapter == "openai" {
				base += "/v1"
			}
			env := short(map[string]string{"TIDINGS_MODEL": c.Adapter + "/m", "TIDINGS_MODEL_BASE_URL": base, "TIDINGS_BREAKER_CALLS": "1000000"})
			for name, value := range c.Settings {
				env[name] = value
			}
			p := serve(t, env, "dev")
			asked := 0
			run := func(session string, want map[string]any) {
				t.Helper()
				end, calls := p.asked(c, session), 0
				all := standin.arrivals()
				calls, asked = len(all)-asked, len(all)
				least, most := numbers(want["calls"])
				if calls < least || calls > most {
					t.Errorf("%s: %d calls, want %v", session, calls, want["calls"])
				}
				if !takes(want["outcome"], fmt.Sprint(end.data["outcome"])) || want["reason"] != nil && !takes(want["reason"], fmt.Sprint(end.data["reason"])) {
					t.Errorf("%s: ended as %v %v, want %v %v", session, end.data["outcome"], end.data["reason"], want["outcome"], want["reason"])
				}
			}
			run("first", c.Expect)
			all := standin.arrivals()
			for _, text := range stringsIn(c.Expect["request_contains"]) {
				if !strings.Contains(all[0].text, text) {
					t.Errorf("the request lacks %q", text)
				}
			}
			for _, text := range stringsIn(c.Expect["request_lacks"]) {
				if strings.Contains(all[0].text, text) {
					t.Errorf("the request has %q", text)
				}
			}
			if len(all) > 1 {
				between := float64(all[1].at.Sub(all[0].at).Milliseconds())
				if least, ok := c.Expect["first_wait_ms_at_least"].(float64); ok && between < least {
					t.Errorf("the second call came after %v ms, want %v", between, least)
				}
				if most, ok := c.Expect["first_wait_ms_at_most"].(float64); ok && between > most {
					t.Errorf("the second call came after %v ms, want at most %v", between, most)
				}
			}
			if want := c.Expect["first_class"]; want != nil {
				_, _, got := call(t, http.MethodGet, p.api+"/api/v1/sessions/first/"+c.Workload+"/attempts", "")
				calls, _ := got["calls"].([]any)
				if first, _ := calls[0].(map[string]any); !takes(want, fmt.Sprint(first["class"])) {
					t.Errorf("the first call is %v, want class %v", first, want)
				}
			}
			if again, ok := c.Expect["again"].(map[string]any); ok {
				run("again", again)
			}
		})
	}
}

// asked submits a case and waits for its end.
func (p *process) asked(c reported, session string) frame {
	p.t.Helper()
	input := c.Input
	if input == "" {
		input = someText
	}
	url := p.api + "/api/v1/sessions/" + session + "/" + c.Workload
	s := openStream(p.t, url+"/status", "")
	s.until("idle")
	body, _ := json.Marshal(map[string]any{"input": map[string]string{"text": input}})
	if status, _, got := call(p.t, http.MethodPost, url, string(body)); status != http.StatusAccepted {
		p.t.Fatalf("submit: %d %v", status, got)
	}
	frames := s.rest()
	return frames[len(frames)-1]
}

// numbers are a number, or the least and the most.
func numbers(v any) (least, most int) {
	if n, ok := v.(float64); ok {
		return int(n), int(n)
	}
	both, _ := v.([]any)
	from, _ := both[0].(float64)
	to, _ := both[1].(float64)
	return int(from), int(to)
}
