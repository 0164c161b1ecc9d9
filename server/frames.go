package server

import (
	"fmt"
	"net/http"
	"strings"
)

// No blank line follows what is no event: some readers would make an empty one
// of a block that has only a retry or a comment. The next event's block takes
// these lines in.
const (
	preamble  = "retry: 2000\n" // a stream's first bytes
	heartbeat = "alive"         // as a comment: it is no event and has no id

	heartbeatChunk = "8\r\n: " + heartbeat + "\n\r\n" // of a chunked body
)

// padding is a comment for readers that hold back the first 512 bytes. Apple's
// URLSession does, whatever the headers say, and names CFNetwork as its agent.
func padding(r *http.Request) string {
	if !strings.Contains(r.UserAgent(), "CFNetwork/") {
		return ""
	}
	return ":" + strings.Repeat(" ", 512-len(preamble)-2) + "\n"
}

// streamHeaders say that this is a stream, to be kept by nobody, changed by
// nobody, and held back by no proxy.
func streamHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
}

// appendFrame adds an event's bytes to b.
func appendFrame(b []byte, fr frame) []byte {
	if fr.id != "" {
		b = append(append(append(b, "id: "...), fr.id...), '\n')
	}
	b = append(append(append(b, "event: "...), fr.event...), '\n')
	b = append(append(append(b, "data: "...), fr.data...), '\n')
	return append(b, '\n')
}

// lastBytes say why, where the server ends a stream that works, and when to come
// back. They make no event. "": there is nothing to say.
func (e *ending) lastBytes() string {
	switch e.why {
	case endExpired, endMaxAge, endDrain:
	default:
		return ""
	}
	if e.retry == 0 {
		return ": " + e.why + "\n"
	}
	return fmt.Sprintf(": %s\nretry: %d\n", e.why, e.retry.Milliseconds())
}
