package drill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// op is one operation as its client lived through it.
type op struct {
	ID string
	// Deaf is how many answers to its submit the client loses before it gets one.
	Deaf int
	// Jobs are the ids of jobs that it was told of, each once.
	Jobs []string
	// Refused is the code of the refusal, for one that was not taken in.
	Refused string
	Events  []event
	// Final is how it stands when the row is over.
	Final    event
	Document *document
	Ledger   ledger
}

// event is what the stream says, as far as the drill looks.
type event struct {
	Event     string    `json:"event"`
	Job       string    `json:"job_id"`
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Attempt   int       `json:"attempt"`
	Deadline  time.Time `json:"deadline_at"`
	Layer     string    `json:"layer"`
	Reason    string    `json:"reason"`
	Outcome   string    `json:"outcome"`
	NextRetry time.Time `json:"next_retry_at"`
}

// terminal tells that nothing follows by itself.
func (e event) terminal() bool { return e.Event == "completed" || e.Event == "error" }

type document struct {
	Version int64           `json:"version"`
	Job     string          `json:"job_id"`
	Content json.RawMessage `json:"content"`
}

type ledger struct {
	Calls []struct {
		Attempt  int      `json:"attempt"`
		Class    string   `json:"class"`
		Decision string   `json:"decision"`
		In       *int64   `json:"input_tokens"`
		Out      *int64   `json:"output_tokens"`
		Cost     *float64 `json:"cost_usd"`
	} `json:"calls"`
}

// taken tells that it was admitted.
func (o *op) taken() bool { return len(o.Jobs) > 0 }

// end is its terminal event, the zero one without.
func (o *op) end() event {
	if n := len(o.Events); n > 0 && o.Events[n-1].terminal() {
		return o.Events[n-1]
	}
	return event{}
}

// client speaks with the API.
type client struct {
	api  string
	http *http.Client
}

func newClient(api string) *client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil // the loopback and nothing else
	t.MaxIdleConnsPerHost = 64
	return &client{api: api, http: &http.Client{Transport: t}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) session(id string) string { return c.api + "/api/v1/sessions/" + id + "/summary" }

// text is what a client submits: some sentences, and the operation's name.
func text(id string) string {
	return "This is operation " + id + ". The pump lost pressure in the night. The seal was worn and has been replaced. It has held since."
}

// submit asks for a job. It says how the answer was: the job's id, or the code
// of the refusal.
func (c *client) submit(ctx context.Context, id string) (job, refused string, err error) {
	body, err := json.Marshal(map[string]any{"input": map[string]string{"text": text(id)}})
	if err != nil {
		return "", "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.session(id), bytes.NewReader(body))
	if err != nil {
		return "", "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", id)
	var got struct {
		Job  string `json:"job_id"`
		Code string `json:"code"`
	}
	status, err := c.do(r, &got)
	switch {
	case err != nil:
		return "", "", err
	case status < 300:
		return got.Job, "", nil
	case got.Code == "":
		return "", "", fmt.Errorf("a submit was answered with %d and no code", status)
	}
	return "", got.Code, nil
}

// do makes a request and reads the JSON that comes back.
func (c *client) do(r *http.Request, into any) (status int, err error) {
	res, err := c.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err != nil {
		return res.StatusCode, err
	}
	if len(body) == 0 {
		return res.StatusCode, nil
	}
	return res.StatusCode, json.Unmarshal(body, into)
}

func (c *client) get(ctx context.Context, url string, into any) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Accept", "application/json")
	return c.do(r, into)
}

// live submits an operation and follows it to its end. Its stream is open
// before, so that no transition is missed. What it saw is in o even when it
// fails; seen is told of each event and may be nil.
func (c *client) live(ctx context.Context, o *op, seen func(event)) error {
	submitted, connections := false, 0
	for ; ; connections++ {
		if connections > 20 {
			return fmt.Errorf("%s: the stream of a job that has not ended closed %d times", o.ID, connections)
		}
		done, err := c.follow(ctx, o, func() error { // connected
			if submitted {
				return nil
			}
			submitted = true
			for range o.Deaf + 1 { // the same key each time, as a client does that heard nothing
				job, refused, err := c.submit(ctx, o.ID)
				if err != nil {
					return err
				}
				if o.Refused = refused; refused == "" {
					o.told(job)
				}
			}
			return nil
		}, seen)
		if err != nil || done || o.Refused != "" {
			return err
		}
	}
}

// told notes a job's id.
func (o *op) told(job string) {
	for _, known := range o.Jobs {
		if known == job {
			return
		}
	}
	o.Jobs = append(o.Jobs, job)
}

// follow reads one connection's stream. done: the terminal event has come.
func (c *client) follow(ctx context.Context, o *op, connected func() error, seen func(event)) (done bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.session(o.ID)+"/status", nil)
	if err != nil {
		return false, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if n := len(o.Events); n > 0 {
		r.Header.Set("Last-Event-ID", strconv.FormatInt(o.Events[n-1].Seq, 10))
	}
	res, err := c.http.Do(r)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s: a stream was answered with %d", o.ID, res.StatusCode)
	}
	frames := bufio.NewScanner(res.Body)
	frames.Buffer(nil, 1<<20)
	name := ""
	for frames.Scan() {
		field, value, _ := strings.Cut(frames.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			var e event
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				return false, fmt.Errorf("%s: %w", o.ID, err)
			}
			e.Event = name
			if name != "idle" {
				o.Events = append(o.Events, e)
				o.told(e.Job)
				if seen != nil {
					seen(e)
				}
			} else if err := connected(); err != nil || o.Refused != "" {
				return false, err
			}
			if e.terminal() {
				return true, nil
			}
		}
	}
	return false, ctxErr(ctx, frames.Err())
}

// ctxErr lets a connection that broke be opened again, unless it was we who
// ended it.
func ctxErr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

// crowd lets every operation be a client of its own, all at the same time, each
// beginning at a moment within spread that the seed decides.
func (c *client) crowd(ctx context.Context, ops []*op, spread time.Duration, seed uint64, seen func(*op, event)) error {
	chance := rand.New(rand.NewPCG(seed, uint64(len(ops))))
	errs := make([]error, len(ops))
	var wg sync.WaitGroup
	for i, o := range ops {
		after := time.Duration(chance.Float64() * float64(spread))
		wg.Go(func() {
			select {
			case <-time.After(after):
			case <-ctx.Done():
				errs[i] = context.Cause(ctx)
				return
			}
			errs[i] = c.live(ctx, o, func(e event) {
				if seen != nil {
					seen(o, e)
				}
			})
		})
	}
	wg.Wait()
	return firstOf(errs)
}

// firstOf is one error for many of the same kind.
func firstOf(errs []error) error {
	n, first := 0, error(nil)
	for _, err := range errs {
		if err != nil {
			n++
			if first == nil {
				first = err
			}
		}
	}
	if n > 1 {
		return fmt.Errorf("%w (and %d more like it)", first, n-1)
	}
	return first
}

// look asks how the operations stand after all, and for what they have left.
func (c *client) look(ctx context.Context, ops []*op) error {
	errs := make([]error, len(ops))
	slots := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i, o := range ops {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			_, e1 := c.get(ctx, c.session(o.ID)+"/status", &o.Final)
			var d document
			status, e2 := c.get(ctx, c.session(o.ID), &d)
			if status == http.StatusOK {
				o.Document = &d
			}
			var e3 error
			if o.taken() {
				_, e3 = c.get(ctx, c.session(o.ID)+"/attempts", &o.Ledger)
			}
			errs[i] = errors.Join(e1, e2, e3)
		})
	}
	wg.Wait()
	return firstOf(errs)
}
