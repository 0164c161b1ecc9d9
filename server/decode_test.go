package server

import (
	"runtime"
	"strings"
	"testing"

	"github.com/tidings/tidings/jobs"
)

// A megabyte of small values took forty times its size to decode.
func TestABodyOfSmallValuesTakesLittleMemory(t *testing.T) {
	h := newTCPTestbed(t)
	fill := func(start, value, end string) string {
		return start + strings.Repeat(value, (jobs.MaxInputBytes-len(start)-len(end))/len(value)) + end
	}
	for name, body := range map[string]string{
		"messages":      fill(`{"input":{"messages":[0`, `,0`, `]}}`),
		"empty objects": fill(`{"input":{"messages":[{}`, `,{}`, `]}}`),
		"steps":         fill(`{"input":{"text":"a"},"simulate":[""`, `,""`, `]}`),
		"a deep one":    fill(`{"input":{"text":`, `[`, ``),
		"unknown":       fill(`{"other":[0`, `,[]`, `]}`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := h.do(t, "POST", documentPath, body)
		runtime.ReadMemStats(&after)
		a.refused(t, name, 400, "invalid_body", "")
		// The body is there once for the client and, while it is read, grown twice for the server.
		if took := after.TotalAlloc - before.TotalAlloc; took > 20*jobs.MaxInputBytes {
			t.Errorf("%s: %d MiB", name, took>>20)
		}
	}
}

func TestAnAmbiguousBodyIsRefused(t *testing.T) {
	h := newTCPTestbed(t)
	for _, body := range []string{
		`{"input":{"text":"a"},"input":{"text":"b"}}`, `{"input":{"text":"a","text":"b"}}`, `{"input":{"text":"a"},"\u0069nput":{}}`,
		`{"input":{"text":"\ud800"}}`, `{"input":{"text":"\udc00\ud800"}}`, "{\"input\":{\"text\":\"\xff\"}}", `{"input":{"text":"a"}} {}`, `[{}]`,
	} {
		h.do(t, "POST", documentPath, body).refused(t, body, 400, "invalid_body", "")
	}
	if len(h.jobs.submits) != 0 {
		t.Errorf("%d came through", len(h.jobs.submits))
	}
}

func TestASaltKeysTheHashOfAnOwner(t *testing.T) {
	plain, salted, other := &Server{}, &Server{o: Options{OwnerSalt: "a"}}, &Server{o: Options{OwnerSalt: "b"}}
	of := func(s *Server, owner string) string { return s.topicFor(owner, "s", "summary").Owner }
	if of(plain, "anna") == of(salted, "anna") || of(salted, "anna") == of(other, "anna") || of(salted, "anna") == of(salted, "bert") {
		t.Error("the salt changes nothing")
	}
	if again := (&Server{o: Options{OwnerSalt: "a"}}); of(again, "anna") != of(salted, "anna") || of(salted, "") != of(plain, "") {
		t.Error("an owner is not the same in each process")
	}
}
