package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// An operators' port that takes everything, and what it was asked.
func takesAll(t *testing.T, answer string) (address string, asked *[]string) {
	asked = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// orders runs a command against the operators' port there.
func orders(t *testing.T, address string, args ...string) (said string, err error) {
	t.Helper()
	line, mode, err := read(t, map[string]string{"TIDINGS_OPS_URL": address, "TIDINGS_OPERATOR": "ann"}, args...)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	switch mode {
	case "retries":
		err = switchRetries(context.Background(), &line.Retries, &out)
	case "pause":
		err = pauseCalls(context.Background(), &line.Pause, &out)
	case "resume":
		err = resumeCalls(context.Background(), &line.Resume, &out)
	case "probe":
		err = probeCalls(context.Background(), &line.Probe, &out)
	}
	return out.String(), err
}

// TestAnEmptyFlagIsNotTakenForEverything: a script's variable that is not set
// must not switch all retries off, nor end a pause that it meant to begin.
func TestAnEmptyFlagIsNotTakenForEverything(t *testing.T) {
	address, asked := takesAll(t, `{}`)
	for _, c := range []struct {
		want string
		args []string
	}{
		{`PUT /admin/retries {"for":"1h","note":"","owner":"ann","retries":"off","workload":""}`, []string{"retries", "off", "--workload", ""}},
		{`PUT /admin/retries {"dependency":"","note":"","owner":"ann","retries":"on"}`, []string{"retries", "on", "--dependency="}},
		{`PUT /admin/retries {"for":"","note":"","owner":"ann","retries":"off"}`, []string{"retries", "off", "--for", ""}},
		{`PUT /admin/dependencies/local/pause {"for":"","note":"","owner":"ann"}`, []string{"pause", "local", "--for", ""}},
		{`PUT /admin/dependencies/local/resume {"note":"","owner":"ann"}`, []string{"resume", "local"}},
		{`PUT /admin/dependencies/local/probe {"note":"","owner":"ann"}`, []string{"probe", "local"}},
	} {
		*asked = nil
		if _, err := orders(t, address, c.args...); err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
		if len(*asked) == 0 || (*asked)[0] != c.want {
			t.Errorf("%q asked\n%s\nwant\n%s", c.args, *asked, c.want)
		}
	}
}

func TestAnOrderThatCannotBeMeantAsksNobody(t *testing.T) {
	address, asked := takesAll(t, `{}`)
	for want, args := range map[string][]string{
		"--for is for retries off": {"retries", "on", "--for", "2h"},
		"omit --for":               {"retries", "show", "--for", "2h"},
		"omit --workload":          {"retries", "show", "--workload", "summary"},
		"name the model":           {"pause", ""},
		"such as openai/NAME":      {"resume", " "},
		"a host, such as http://":  {"retries", "show", "--url", "127.0.0.1:8081"},
		"(TIDINGS_OPS_URL)":        {"retries", "show", "--url", ""},
		"must be http://":          {"retries", "show", "--url", "ftp://127.0.0.1:8081"},
	} {
		if _, err := orders(t, address, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	if len(*asked) != 0 {
		t.Errorf("asked %q", *asked)
	}
}

// TestADrillThatCouldNotReportDoesNotBegin: what minutes have shown must not be lost.
func TestADrillThatCouldNotReportDoesNotBegin(t *testing.T) {
	var out, said strings.Builder
	c := &drillCommand{Short: true, Replicas: 1, Row: []string{"baseline"}, RedisServer: "/no/such", Report: t.TempDir() + "/no/such/report.md"}
	if code := runDrill(t.Context(), c, &out, &said); code != exitSettings || !strings.Contains(said.String(), "--report: there is no folder") || out.Len() > 0 {
		t.Errorf("exit code %d, %q, %q", code, said.String(), out.String())
	}
}

// TestOperatorsAreToldWhatToDoNext when they have asked the wrong port, and when
// what holds calls is not theirs to end.
func TestOperatorsAreToldWhatToDoNext(t *testing.T) {
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	_, err := orders(t, missing.URL, "retries", "show")
	if err == nil || !strings.Contains(err.Error(), "is it the operators' address (TIDINGS_OPS_LISTEN)") {
		t.Errorf("at the API's port: %v", err)
	}
	_, err = orders(t, "http://admin:secret-of-the-test@127.0.0.1:1", "retries", "show")
	if err == nil || strings.Contains(err.Error(), "secret-of-the-test") {
		t.Errorf("a password in the address: %v", err)
	}
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"title":"Briefly unavailable","detail":"Try again.","code":"storage_unavailable"}`)
	}))
	defer away.Close()
	for _, args := range [][]string{{"retries", "off"}, {"pause", "local"}} {
		if _, err := orders(t, away.URL, args...); err == nil || !strings.Contains(err.Error(), "Whether the order was taken is not known") {
			t.Errorf("%q without the storage: %v", args, err)
		}
	}
	if _, err := orders(t, away.URL, "retries", "show"); err == nil || strings.Contains(err.Error(), "order") {
		t.Errorf("a question without the storage: %v", err)
	}
	until := time.Date(2126, 4, 7, 12, 0, 0, 0, time.UTC).Local().Format("2006-01-02 15:04:05 MST")
	long, _ := takesAll(t, `{"dependency":"local","used_here":true,"paused_until":"2126-04-07T12:00:00.000Z","outlasts_deadline":true}`)
	if said, err := orders(t, long, "pause", "local"); err != nil || !strings.Contains(said, "That is longer than a job may take") {
		t.Errorf("a pause beyond the deadline: %q %v", said, err)
	}
	held, _ := takesAll(t, `{"dependency":"local","used_here":true,"held_until":"2126-04-07T12:00:00.000Z","paused_until":null}`)
	if said, err := orders(t, held, "resume", "local"); err != nil || !strings.Contains(said, "their provider asks all of them to wait until "+until) || strings.Contains(said, "go on") {
		t.Errorf("held by the provider: %q %v", said, err)
	}
}
