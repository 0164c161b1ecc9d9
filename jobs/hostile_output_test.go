package jobs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// hostileOutputs satisfy the schema to a careless eye. The first made the
// validator panic, the others read differently to different readers.
func hostileOutputs() map[string]string {
	return map[string]string{
		"a number beyond a float64": `{"label":"L","confidence":1e2000000}`,
		"a name twice":              `{"label":"L","label":"M","confidence":0.5}`,
		"half a surrogate pair":     `{"label":"\ud83d","confidence":0.5}`,
	}
}

// The document of a model that answers so is invalid_output, and no more is paid
// than for any other such answer: one call.
func TestHostileOutputOfAModelCostsOneCall(t *testing.T) {
	for name, content := range hostileOutputs() {
		t.Run(name, func(t *testing.T) {
			m := modeltest.NewScripted(modeltest.Answer(content))
			inTestbed(t, m, nil, func(t *testing.T, h *testbed) {
				h.topic = events.NewTopic("", "abc-123", "classification")
				h.start()
				h.submit("some text to work on")
				passed(9 * time.Minute)
				all := h.history()
				if end := all[len(all)-1]; end.Outcome != events.OutcomeFailed || end.Reason != events.InvalidOutput || m.Calls() != 1 {
					t.Errorf("%d calls, told\n%s", m.Calls(), story(all))
				}
				if d, err := h.service.Document(t.Context(), h.topic); err == nil {
					t.Errorf("a document: %s", d.Content)
				}
			})
		})
	}
}

// An outside worker that reports so is told what is wrong, and may report again.
func TestHostileOutputOfAnOutsideWorkerIsRefused(t *testing.T) {
	a := newOutsideLine(t, nil)
	a.topic = events.NewTopic("", "s-1", "classification")
	a.submit()
	_, r := a.claim()
	for _, content := range hostileOutputs() {
		_, err := a.outside.Complete(t.Context(), r, json.RawMessage(content), "theirs", model.Usage{})
		a.refused(err, jobs.CodeInvalidField)
	}
	if l := a.last(); l.Status != events.Processing {
		t.Errorf("told %+v", l)
	}
	if _, err := a.outside.Complete(t.Context(), r, json.RawMessage(`{"label":"L","confidence":0.5}`), "theirs", model.Usage{}); err != nil {
		t.Error(err)
	}
}
