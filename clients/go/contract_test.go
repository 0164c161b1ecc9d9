package tidings_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	tidings "github.com/tidings/tidings/clients/go"
)

// TestContract goes through every case of the contract server, which checks what
// the client sends and what it makes of the answers.
func TestContract(t *testing.T) {
	server := contractServer(t)
	var names []string
	exchange(t, http.MethodGet, server+"/cases?http2", nil, &names)
	if len(names) == 0 {
		t.Fatal("the contract server has no cases")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait for pauses that the server or the client makes
			drive(t, server, name)
		})
	}
}

// contractServer builds and starts the contract server; it ends with the test.
func contractServer(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "contract")
	if out, err := exec.Command("go", "build", "-C", "../contract", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("cannot build the contract server: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, "serve", "-watch-stdin")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	ready, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the contract server does not start: %v", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(ready), "listen=")
}

// exchange talks to the contract server itself, not as a client under test.
func exchange(t *testing.T, method, url string, body []byte, result any) {
	t.Helper()
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode > 299 {
		t.Fatalf("%s %s: %d\n%s", method, url, resp.StatusCode, raw)
	}
	if result != nil {
		if err := json.Unmarshal(raw, result); err != nil {
			t.Fatal(err)
		}
	}
}

type contractRun struct {
	BaseURL string `json:"base_url"`
	Client  struct {
		SessionID  string `json:"session_id"`
		Workload   string
		Language   string
		WatchdogMS int `json:"watchdog_ms"`
		Tokens     []string
		HTTP2      bool
		Sessions   []string
	}
	Actions []struct {
		When     map[string]any
		Do, Text string
	}
	Until map[string]any
}

func drive(t *testing.T, server, name string) {
	body, _ := json.Marshal(map[string]string{"case": name})
	var run contractRun
	exchange(t, http.MethodPost, server+"/runs", body, &run)

	// Room for every status of a case: the trace must not wait.
	statuses := make(chan tidings.Status, 256)
	options := []tidings.Option{
		tidings.WithTrace(func(s tidings.Status) { statuses <- s }),
		tidings.WithLanguage(run.Client.Language),
		tidings.WithWatchdog(time.Duration(run.Client.WatchdogMS) * time.Millisecond),
	}
	if tokens := run.Client.Tokens; tokens != nil {
		options = append(options, tidings.WithTokenSource(oneAfterTheOther(tokens)))
	}
	if run.Client.HTTP2 {
		options = append(options, tidings.WithHTTPClient(&http.Client{Transport: withoutTLS()}))
	}
	client, err := tidings.NewClient(run.BaseURL, options...)
	if err != nil {
		t.Fatal(err)
	}
	client = client.For(run.Client.Workload)
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	if sessions := run.Client.Sessions; sessions != nil {
		driveList(t, ctx, client, run)
		return
	}
	d := driver{ctx: ctx, client: client, texts: client.Texts(), session: client.Open(ctx, run.Client.SessionID), statuses: statuses}
	defer d.session.Close()

	for _, action := range run.Actions {
		d.await(t, action.When)
		if result := d.act(t, action.Do, action.Text); result != nil {
			d.report = append(d.report, result)
		}
		exchange(t, http.MethodPost, run.BaseURL+"/did", nil, nil)
		d.settle()
	}
	d.await(t, run.Until)
	d.session.Close()
	report(t, run, d.report)
}

func report(t *testing.T, run contractRun, lines []map[string]any) {
	t.Helper()
	var body bytes.Buffer
	for _, line := range lines {
		raw, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		body.Write(append(raw, '\n'))
	}
	exchange(t, http.MethodPost, run.BaseURL+"/report", body.Bytes(), nil)
}

// driveList follows the sessions of a case as a list.
func driveList(t *testing.T, ctx context.Context, client *tidings.Client, run contractRun) {
	l := client.OpenAll(ctx, run.Client.Sessions...)
	defer l.Close()
	await := func(when map[string]any) (lines []map[string]any) {
		for statuses := range l.Updates() {
			lines = nil
			found := false
			for _, name := range run.Client.Sessions {
				line := written(statuses[name])
				line["session"] = name
				lines = append(lines, line)
				found = found || matches(line, when)
			}
			if found {
				return lines
			}
		}
		t.Fatalf("no status matches %v; the last ones are %v", when, lines)
		return nil
	}
	for _, action := range run.Actions {
		await(action.When)
		if action.Do != "nothing" {
			t.Fatalf("the case wants %q of a list", action.Do)
		}
		exchange(t, http.MethodPost, run.BaseURL+"/did", nil, nil)
	}
	report(t, run, await(run.Until))
}

// withoutTLS is the client's own transport, made to speak HTTP/2 at once.
func withoutTLS() *http.Transport {
	t := tidings.NewTransport().(*http.Transport)
	t.Protocols = new(http.Protocols)
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

func oneAfterTheOther(tokens []string) tidings.TokenSource {
	var mu sync.Mutex
	return func(_ context.Context, refresh bool) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if refresh && len(tokens) > 1 {
			tokens = tokens[1:]
		}
		return tokens[0], nil
	}
}

type driver struct {
	ctx      context.Context
	client   *tidings.Client
	texts    *tidings.Texts
	session  *tidings.Session
	statuses chan tidings.Status
	last     map[string]any
	report   []map[string]any
}

// await writes down statuses until one, or the last, matches.
func (d *driver) await(t *testing.T, when map[string]any) {
	t.Helper()
	for !matches(d.last, when) {
		select {
		case s := <-d.statuses:
			d.note(s)
		case <-d.ctx.Done():
			t.Fatalf("no status matches %v; so far %v", when, d.report)
		}
	}
}

// settle writes down the statuses that an action has already led to: a status from
// before it must not count as one after it.
func (d *driver) settle() {
	for {
		select {
		case s := <-d.statuses:
			d.note(s)
		default:
			return
		}
	}
}

func (d *driver) note(s tidings.Status) {
	line := written(s)
	if !reflect.DeepEqual(line, d.last) {
		d.report = append(d.report, line)
		d.last = line
	}
}

func matches(line, when map[string]any) bool {
	for key, want := range when {
		if !reflect.DeepEqual(line[key], want) {
			return false
		}
	}
	return line != nil
}

// written is a status as the cases write it.
func written(s tidings.Status) map[string]any {
	orNull := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	line := map[string]any{
		"phase": string(s.Phase), "spinner": s.Spinner, "message_key": orNull(s.MessageKey), "retry_attempt": nil,
		"can_retry": s.CanRetry, "can_dismiss": s.CanDismiss, "connection": string(s.Connection),
		"last_event_id": s.LastEventID, "outcome": string(s.Outcome),
		"event": orNull(s.Event.Name), "reason": orNull(s.Event.Reason), "message": orNull(s.Event.Message),
		"counts_down": !s.NextTry.IsZero(), "problem": nil,
	}
	if s.RetryAttempt > 0 {
		line["retry_attempt"] = s.RetryAttempt
	}
	if p := s.Problem; p != nil {
		line["problem"] = strings.TrimPrefix(p.Error(), "tidings: the server answered ")
	}
	return line
}

// act does what the user does and returns what came of it.
func (d *driver) act(t *testing.T, do, text string) map[string]any {
	result := map[string]any{"result": do, "ok": true}
	var err error
	switch do {
	case "nothing":
		return nil
	case "dismiss":
		d.session.Dismiss()
		return nil
	case "foreground":
		d.session.Foreground()
		return nil
	case "retry":
		err = d.session.Retry(d.ctx)
	case "cancel":
		err = d.session.Cancel(d.ctx)
	case "submit":
		var job tidings.Job
		job, err = d.session.Submit(d.ctx, tidings.Submission{Text: text})
		result["job_id"], result["job_status"] = job.ID, job.Status
	case "document":
		var doc tidings.Document
		doc, err = d.session.Document(d.ctx)
		result["version"], result["content"] = doc.Version, doc.Content
	case "texts":
		err = d.texts.Load(d.ctx)
		result["language"] = d.texts.Language()
		result["busy"] = d.texts.Get(tidings.KeyBusyRetrying)
		result["later"] = d.texts.Get(tidings.KeySeeLater)
		result["again"] = d.texts.Get(tidings.KeyRetryButton)
	default:
		t.Fatalf("the case wants %q, which this driver does not know", do)
	}
	var problem *tidings.HTTPError
	if errors.As(err, &problem) {
		return map[string]any{
			"result": do, "ok": false, "status": problem.Status, "code": problem.Code,
			"retry_after_ms": problem.RetryAfter.Milliseconds(),
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", do, err)
	}
	return result
}
