package server

import (
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings/events"
)

// TestAReplacedJobsEndIsNobodysEnd: a submit that replaces the live job ends it
// and starts the new one in one step. Its reader sees the new one only; who
// follows sees both.
func TestAReplacedJobsEndIsNobodysEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		topic := events.NewTopic("", "s-1", "summary")
		add := func(n events.Transition) {
			t.Helper()
			if _, err := h.log.Append(t.Context(), topic, n); err != nil {
				t.Fatal(err)
			}
		}
		add(events.Transition{Status: events.Queued, JobID: "old"})
		plain := h.open(t, "/api/v1/sessions/s-1/summary/status")
		all := h.open(t, "/api/v1/sessions/s-1/summary/status?follow=true")
		for _, r := range []*reader{plain, all} {
			if f := r.next(t); f.event != "queued" {
				t.Fatalf("first %+v", f)
			}
		}
		add(events.Transition{Status: events.Failed, JobID: "old", Outcome: events.OutcomeFailed, Reason: events.Cancelled, ReplacedBy: "new"})
		add(events.Transition{Status: events.Queued, JobID: "new"})
		add(events.Transition{Status: events.Processing, JobID: "new", Attempt: 1})
		for _, tc := range []struct {
			r    *reader
			want []string
		}{{plain, []string{"queued", "processing"}}, {all, []string{"error", "queued", "processing"}}} {
			for _, want := range tc.want {
				if f := tc.r.next(t); f.event != want {
					t.Errorf("got %s, want %s", f.event, want)
				}
			}
		}
	})
}
