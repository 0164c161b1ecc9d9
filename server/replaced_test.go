package server

import (
	"testing"

	"github.com/tidings/tidings/events"
)

// TestAReplacedJobsEndIsNobodysEnd: a submit that replaces the live job ends it
// and starts the new one in one step. Its reader sees the new one only; who
// follows sees both.
func TestAReplacedJobsEndIsNobodysEnd(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		topic := summary(session)
		h.happenAll(t, topic, job("J1", queued())...)
		plain, all := h.open(t, statusPath), h.open(t, statusPath+"?follow=true")
		plain.want(t, "queued")
		all.want(t, "queued")
		end := events.Transition{Status: events.Failed, JobID: "J1", Outcome: events.OutcomeFailed, Reason: events.Cancelled, ReplacedBy: "J2"}
		h.happenAll(t, topic, end)
		h.happenAll(t, topic, job("J2", queued(), processing(1, 1))...)
		for _, want := range []string{"queued", "processing"} {
			if m := plain.want(t, want); m.json(t)["job_id"] != "J2" {
				t.Errorf("%s of %v", want, m.json(t)["job_id"])
			}
		}
		for _, want := range []string{"error", "queued", "processing"} {
			all.want(t, want)
		}
	})
}
