package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/lifecycle"
	"github.com/tidings/tidings/locales"
)

type (
	jobView struct {
		Title, Self string
		Now         time.Time
		Missing     string // why there is nothing to show
		Find        findForm
		Older       string // the job that was asked for is not the newest one
		Status      events.Status
		Facts       []fact
		Attempts    []attemptRow
		Calls       []callRow
		Language    string
		Frames      []frameRow
	}
	fact struct {
		Name, Value string
		Code        bool
	}
	attemptRow struct {
		lifecycle.AttemptLine
		Took string
	}
	callRow struct {
		lifecycle.CallLine
		Took, Answer, Wait, In, Out, Cost string
	}
	frameRow struct {
		At         time.Time
		Seq        int64
		Event      events.Status
		Text, Data string
		Other      bool
	}
)

// showJob is one session's newest job: its ledger, and what its client was sent.
// It shows codes, numbers and the product's own texts; no material, no output,
// no token is in what it is made of.
func (s *Server) showJob(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWait)
	defer cancel()
	q := r.URL.Query()
	v := jobView{Title: "Job", Self: r.URL.RequestURI(), Now: s.o.Hub.Now(), Find: newFind()}
	// What is pasted often has a space around it, and no id has one in it.
	v.Find.ID, v.Find.Session, v.Find.Owner = strings.TrimSpace(q.Get("id")), strings.TrimSpace(q.Get("session")), q.Get("owner")
	if name := q.Get("workload"); name != "" {
		v.Find.Workload = name
	}
	topic, job, err := s.asked(ctx, v.Find)
	var o jobs.Overview
	if err == nil {
		o, err = s.o.Operators.Overview(ctx, topic)
	}
	status := http.StatusOK
	if err != nil {
		p := problemOf(err)
		status, _ = statusOf(p.code)
		switch {
		case status == http.StatusNotFound && v.Find.ID != "":
			v.Title, v.Missing = "Not found", "Nothing is known of a job or task with this id."
		case status == http.StatusNotFound:
			v.Title, v.Missing = "Not found", "Nothing is known of this session, workload and owner."
		case status == http.StatusBadRequest:
			v.Title, v.Missing = "Not understood", p.hint
		default:
			s.log.Warn("a job could not be shown", "error", err)
			v.Title, v.Missing = "Not available", "Redis does not answer. Try again in a moment."
		}
	} else {
		s.fillJob(&v, o, job, s.o.Texts.Match(q.Get("lang"), "en"))
	}
	s.opsPage(w, status, "job", v)
}

// asked finds the session that was asked for, and the job if it was asked for by
// its id.
func (s *Server) asked(ctx context.Context, f findForm) (events.Topic, string, error) {
	if f.ID != "" {
		if len(f.ID) > 80 || !only(f.ID, func(b byte) bool { return alphanumeric(b) || b == ':' }) {
			return events.Topic{}, "", &problem{code: codeNotFound}
		}
		return s.o.Operators.Find(ctx, f.ID)
	}
	if _, ok := jobs.WorkloadNamed(f.Workload); !ok || !validSession(f.Session) {
		return events.Topic{}, "", &problem{code: codeInvalidQuery, hint: "Give a job’s id, or a session (1 to 128 of A-Z a-z 0-9 . _ : -) and a workload."}
	}
	return s.topicFor(f.Owner, f.Session, f.Workload), "", nil
}

func (s *Server) fillJob(v *jobView, o jobs.Overview, asked string, lang locales.Language) {
	v.Title, v.Now, v.Language = "Job "+o.ID, o.Now, string(lang)
	if asked != "" && asked != o.ID {
		v.Older = "The session has had a newer job since " + asked + ", " + o.ID + ", which is shown here. Of the older one only what its client was sent is kept."
	}
	v.Self = "/ops/job?" + url.Values{"id": {o.ID}, "lang": {string(lang)}}.Encode()
	if asked == "" {
		v.Self = "/ops/job?" + url.Values{"session": {v.Find.Session}, "workload": {v.Find.Workload}, "owner": {v.Find.Owner}, "lang": {string(lang)}}.Encode()
	}
	var last events.Transition
	if n := len(o.Transitions); n > 0 {
		last = o.Transitions[n-1]
		v.Status = last.Status
	}
	v.Facts = factsOf(o, last)
	for _, a := range o.Ledger.Attempts {
		took := "runs"
		if !a.EndedAt.IsZero() {
			took = length(a.EndedAt.Sub(a.StartedAt))
		}
		v.Attempts = append(v.Attempts, attemptRow{a, took})
	}
	for _, c := range o.Ledger.Calls {
		v.Calls = append(v.Calls, callRowOf(c))
	}
	setText(&asked, o.ID)
	for _, t := range slices.Backward(o.Transitions) {
		v.Frames = append(v.Frames, s.frameOf(o.Topic, t, lang, t.JobID != asked))
	}
}

func factsOf(o jobs.Overview, last events.Transition) []fact {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "–"
		}
		return t.UTC().Format("2006-01-02 15:04:05")
	}
	worker := "nobody"
	if o.Claim != nil {
		worker = o.Claim.Worker + ", its lease ends " + at(o.Claim.LeaseUntil)
	}
	input := "not kept any more"
	if o.InputBytes > 0 {
		input = grouped(int64(o.InputBytes)) + " bytes kept, never shown"
	}
	document := "none"
	if o.Version > 0 {
		document = fmt.Sprintf("version %d, never shown", o.Version)
	}
	facts := []fact{
		{"Job", o.ID, true}, {"Session", o.Topic.Session, true}, {"Workload", o.Topic.Workload, false},
		{"Owner, hashed", o.Topic.Owner, true}, {"Model", o.Dependency, true}, {"Queue and task", o.Queue + ", " + o.ID + ":" + strconv.Itoa(o.Run), true},
		{"Accepted", at(o.AcceptedAt), false}, {"Deadline", at(o.DeadlineAt), false},
		{"Attempts", fmt.Sprintf("%d of %d", o.Attempts, o.MaxAttempts), false},
		{"Calls", fmt.Sprintf("%d of %d", o.Calls, o.Allowance), false},
		{"Manual retries in a row", strconv.Itoa(o.Manual), false},
		{"With", worker, false}, {"Input", input, false}, {"Document", document, false},
	}
	if !o.NextRetryAt.IsZero() && !last.Status.Terminal() {
		facts = append(facts, fact{"Next attempt", at(o.NextRetryAt), false})
	}
	if !o.NotBefore.IsZero() && !last.Status.Terminal() {
		facts = append(facts, fact{"Waits until", at(o.NotBefore), false})
	}
	if last.Outcome != "" {
		end := string(last.Outcome)
		if last.Reason != "" {
			end += ", " + string(last.Reason)
		}
		facts = append(facts, fact{"Ended", end + ", " + at(last.At), false})
	}
	return facts
}

func callRowOf(c lifecycle.CallLine) callRow {
	r := callRow{CallLine: c, Took: length(time.Duration(c.DurationMS) * time.Millisecond), Answer: "ok", Wait: "–", In: "unknown", Out: "unknown", Cost: "unknown"}
	if c.Class != "" {
		r.Answer = string(c.Class)
		if c.ProviderStatus != 0 {
			r.Answer += " (" + strconv.Itoa(c.ProviderStatus)
			if c.ProviderType != "" {
				r.Answer += " " + c.ProviderType
			}
			r.Answer += ")"
		}
	}
	if c.Message != "" {
		r.Answer += ": " + c.Message
	}
	if c.Advice != "" {
		r.Answer += ". Advice: " + c.Advice
	}
	if c.WaitHintMS > 0 {
		r.Wait = length(time.Duration(c.WaitHintMS) * time.Millisecond)
	}
	if c.InputTokens != nil {
		r.In = grouped(*c.InputTokens)
	}
	if c.OutputTokens != nil {
		r.Out = grouped(*c.OutputTokens)
	}
	if c.CostUSD != nil {
		r.Cost = fmt.Sprintf("%.4f", *c.CostUSD)
	}
	return r
}

// frameOf renders a transition as its stream did at its time.
func (s *Server) frameOf(topic events.Topic, t events.Transition, lang locales.Language, other bool) frameRow {
	then := &renderer{texts: s.render.texts, now: func() time.Time { return t.At }}
	f := frameRow{At: t.At, Seq: t.Seq, Event: t.Status, Other: other}
	data, err := then.event(topic, t, form{lang: lang})
	if err != nil {
		f.Data = "not known to this version"
		return f
	}
	f.Data = string(data)
	switch {
	case t.Status == events.Failed:
		f.Text = string(t.Outcome) + ", " + string(t.Reason)
	case t.Reason != "":
		f.Text = string(t.Reason)
	}
	return f
}
