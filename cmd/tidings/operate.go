package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// What operators do on the command line is a request to the operators' port of
// any process, with its login.

// opsAccess is where that port is and who asks.
type opsAccess struct {
	URL   string `name:"url" env:"TIDINGS_OPS_URL" default:"http://127.0.0.1:8081" placeholder:"URL" help:"The operators' address of any process of the fleet."`
	Owner string `env:"TIDINGS_OPERATOR,USER" placeholder:"NAME" help:"Who wants this, for the audit trail."`
	Note  string `placeholder:"TEXT" help:"Why, for the audit trail."`

	// password is from the environment, as all secrets.
	password string
}

// retriesCommand tells a flag that was not given from an empty one, as of a
// variable that a script has not set: that must not be taken for all retries.
type retriesCommand struct {
	Action     string  `arg:"" enum:"off,on,show" help:"off, on or show."`
	Dependency *string `xor:"scope" placeholder:"NAME" help:"Only retries of calls to this model, such as openai/NAME."`
	Workload   *string `xor:"scope" placeholder:"NAME" help:"Only retries of this workload. Without either: all retries."`
	For        *string `placeholder:"TIME" help:"With off: how long they stay off, 1s to 7d. 1h unless given."`
	opsAccess
}

type pauseCommand struct {
	Dependency string `arg:"" help:"The model, such as openai/NAME or local."`
	For        string `default:"5m" placeholder:"TIME" help:"How long calls wait: 1s to 7d, 5m unless given. Jobs wait with them until their own deadline."`
	opsAccess
}

type resumeCommand struct {
	Dependency string `arg:"" help:"The model, such as openai/NAME or local."`
	opsAccess
}

type probeCommand struct {
	Dependency string `arg:"" help:"The model, such as openai/NAME or local."`
	opsAccess
}

// Help is the end of each such command's --help.
func (opsAccess) Help() string {
	return "The login is TIDINGS_ADMIN_PASSWORD, from the environment alone."
}

// operatorsTime names its zone: the log and /ops are in UTC, a terminal is where its
// operator is.
const operatorsTime = time.DateTime + " MST"

// order is an order as it stands in answers.
type order struct {
	At                   time.Time
	Action, Scope        string
	Dependency, Workload string
	Owner, Note          string
	Login, From          string
	Until                time.Time
}

// switchRetries carries out tidings retries.
func switchRetries(ctx context.Context, c *retriesCommand, out io.Writer) error {
	method, body := http.MethodPut, map[string]string{"retries": c.Action, "owner": c.Owner, "note": c.Note}
	for name, value := range map[string]*string{"dependency": c.Dependency, "workload": c.Workload, "for": c.For} {
		switch {
		case value == nil:
		case c.Action == "show":
			return fmt.Errorf("retries show lists everything that is off: omit --%s", name)
		case c.Action == "on" && name == "for":
			return errors.New("--for is for retries off: on holds until somebody orders off again")
		default:
			body[name] = *value
		}
	}
	switch {
	case c.Action == "show":
		method, body = http.MethodGet, nil
	case c.Action == "off" && c.For == nil:
		body["for"] = "1h"
	}
	var got struct{ Off, Audit []order }
	if err := c.ask(ctx, method, "/admin/retries", body, &got); err != nil {
		return err
	}
	if len(got.Off) == 0 {
		fmt.Fprintln(out, "retries are on")
	}
	for _, o := range got.Off {
		fmt.Fprintf(out, "retries are off for %s until %s, by %s%s\n", o.target(), o.Until.Local().Format(operatorsTime), clean(o.Owner), note(o.Note))
	}
	if c.Action == "off" && c.Dependency != nil {
		var gate struct {
			UsedHere bool `json:"used_here"`
		}
		if err := c.ask(ctx, http.MethodGet, dependencyPath(*c.Dependency), nil, &gate); err != nil {
			return fmt.Errorf("the order was taken, but whether its model is in use could not be asked: %w", err)
		}
		if !gate.UsedHere {
			fmt.Fprintln(out, anotherModel)
		}
	}
	if c.Action != "show" || len(got.Audit) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nthe last orders, newest first")
	for _, o := range got.Audit {
		until := ""
		if !o.Until.IsZero() {
			until = " until " + o.Until.Local().Format(operatorsTime)
		}
		fmt.Fprintf(out, "  %s  %-3s  %s%s, by %s%s\n", o.At.Local().Format(operatorsTime), clean(o.Action), o.target(), until, clean(o.Owner), o.login()+note(o.Note))
	}
	return nil
}

func (o order) target() string {
	if o.Dependency+o.Workload == "" {
		return "everything"
	}
	return clean(o.Scope + " " + o.Dependency + o.Workload)
}

// login is who logged in to give the order.
func (o order) login() string {
	if o.Login == "" { // it is older than that
		return ""
	}
	return clean(" (" + o.Login + " from " + o.From + ")")
}

func note(text string) string {
	if text == "" {
		return ""
	}
	return ": " + clean(text)
}

// pauseCalls carries out tidings pause.
func pauseCalls(ctx context.Context, c *pauseCommand, out io.Writer) error {
	return c.orderCalls(ctx, c.Dependency, "pause", map[string]string{"owner": c.Owner, "note": c.Note, "for": c.For}, out)
}

// resumeCalls carries out tidings resume.
func resumeCalls(ctx context.Context, c *resumeCommand, out io.Writer) error {
	return c.orderCalls(ctx, c.Dependency, "resume", map[string]string{"owner": c.Owner, "note": c.Note}, out)
}

// probeCalls carries out tidings probe.
func probeCalls(ctx context.Context, c *probeCommand, out io.Writer) error {
	return c.orderCalls(ctx, c.Dependency, "probe", map[string]string{"owner": c.Owner, "note": c.Note}, out)
}

func (a *opsAccess) orderCalls(ctx context.Context, dependency, verb string, body map[string]string, out io.Writer) error {
	if strings.TrimSpace(dependency) == "" {
		return errors.New("name the model whose calls are meant, such as openai/NAME or local")
	}
	var got struct {
		Dependency  string
		UsedHere    bool      `json:"used_here"`
		PausedUntil time.Time `json:"paused_until"`
		HeldUntil   time.Time `json:"held_until"`
		Breaker     string
		Outlasts    bool `json:"outlasts_deadline"`
	}
	if err := a.ask(ctx, http.MethodPut, dependencyPath(dependency)+"/"+verb, body, &got); err != nil {
		return err
	}
	name := clean(got.Dependency)
	switch {
	case !got.PausedUntil.IsZero():
		fmt.Fprintf(out, "calls to %s wait until %s\n", name, got.PausedUntil.Local().Format(operatorsTime))
	case !got.HeldUntil.IsZero():
		fmt.Fprintf(out, "calls to %s are not paused, but their provider asks all of them to wait until %s: tidings resume ends that\n",
			name, got.HeldUntil.Local().Format(operatorsTime))
	case verb == "probe" && got.Breaker == "half_open":
		fmt.Fprintf(out, "the next calls to %s test it, within seconds if jobs wait for it\n", name)
	default:
		fmt.Fprintf(out, "calls to %s go on\n", name)
	}
	if got.Outlasts {
		fmt.Fprintln(out, "That is longer than a job may take: submits are refused until it is not, and jobs that wait end at their deadline unless you resume before.")
	}
	if !got.UsedHere {
		fmt.Fprintln(out, anotherModel)
	}
	return nil
}

// anotherModel is said of an order that may have a slip in its model's name: such
// an order is taken, because a fleet may have several, and does nothing.
const anotherModel = "The process that answered works with another model: is the name right?"

// dependencyPath is where a model's gate is; slashes in its name may stand.
func dependencyPath(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "/admin/dependencies/" + strings.Join(parts, "/")
}

// opsAnswer bounds how long an answer may take and how much of it is read.
const (
	opsWait = 15 * time.Second
	opsRead = 1 << 20
)

// ask makes one request to the operators' port.
func (a *opsAccess) ask(ctx context.Context, method, path string, body map[string]string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, opsWait)
	defer cancel()
	where, err := url.Parse(a.URL)
	if err != nil || where.Scheme != "http" && where.Scheme != "https" || where.Host == "" {
		return errors.New("--url (TIDINGS_OPS_URL) must be http:// or https:// and a host, such as http://127.0.0.1:8081")
	}
	at := where.Redacted()
	content := []byte(nil)
	if body != nil {
		if strings.TrimSpace(a.Owner) == "" { // as in a container, where nobody has set USER
			return errors.New("say who wants this, for the audit trail: --owner NAME, or TIDINGS_OPERATOR")
		}
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.URL, "/")+path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.password != "" {
		r.SetBasicAuth("admin", a.password)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("nobody answers at %s: is this the operators' address (TIDINGS_OPS_LISTEN) of a process? %w", at, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, opsRead))
	if err != nil {
		return fmt.Errorf("the answer of %s broke off: %w", at, err)
	}
	if res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, into); err != nil {
			return fmt.Errorf("%s is not Tidings' operators' address: %w", at, err)
		}
		return nil
	}
	var problem struct{ Title, Detail, Field, Hint string }
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return errors.New("the login was refused: set TIDINGS_ADMIN_PASSWORD to that of the processes")
	case res.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("too many wrong passwords came from here: wait %s s, then try again", clean(res.Header.Get("Retry-After")))
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s has nothing at %s: is it the operators' address (TIDINGS_OPS_LISTEN) and not the API's, and a model's name as in TIDINGS_MODEL?", at, clean(path))
	case json.Unmarshal(text, &problem) != nil:
		return errors.New(clean(strings.TrimSpace(res.Status + " " + string(text))))
	}
	why := problem.Title + ". " + problem.Detail
	if problem.Hint != "" {
		why += " (" + strings.TrimSpace(problem.Field+": "+problem.Hint) + ")"
	}
	if method == http.MethodPut && res.StatusCode >= http.StatusInternalServerError {
		why += " Whether the order was taken is not known: tidings retries show and /ops will say, and to give it again does no harm."
	}
	return errors.New(clean(why))
}
