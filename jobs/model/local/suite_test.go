package local_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/model/local"
	"github.com/tidings/tidings/jobs/model/modeltest"
)

// The local model in a simulation behaves as a real provider does.
func TestSuite(t *testing.T) {
	steps := map[modeltest.Scenario]string{
		modeltest.Answers:    "ok",
		modeltest.Limited:    "retry_after:" + strconv.Itoa(int(modeltest.SuiteWait/time.Second)),
		modeltest.Overloaded: "503",
		modeltest.BadRequest: "400",
		modeltest.BadKey:     "401",
		modeltest.Broken:     "500",
		modeltest.Hangs:      "hang",
		modeltest.Cuts:       "cut",
	}
	modeltest.Suite(t, func(t *testing.T, s modeltest.Scenario) modeltest.Subject {
		play, err := local.ParseSteps([]string{steps[s]})
		if err != nil {
			t.Fatalf("no step for %q: %v", s, err)
		}
		topic := modeltest.SuiteRequest().Topic
		l := local.New()
		l.Play(topic, play)
		return modeltest.Subject{Provider: l, Calls: func() int { return l.Calls(topic) }}
	})
}
