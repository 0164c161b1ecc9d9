package drill

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// What was sent arrives, and its answer does not.
func TestTheWireLosesAnswersAndNoRequests(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var arrived atomic.Int64
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with its connection
				buffer := make([]byte, 1<<10)
				for {
					n, err := c.Read(buffer)
					if err != nil {
						return
					}
					arrived.Add(int64(strings.Count(string(buffer[:n]), "settle")))
					_, _ = c.Write([]byte("+OK\n"))
				}
			}()
		}
	}()
	w, err := newWire(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	say := func(words string) (answer string) {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, words)
		buffer := make([]byte, 16)
		n, _ := c.Read(buffer)
		return string(buffer[:n])
	}
	w.loseAnswers("settle", 1)
	for i, want := range []string{"+OK\n", "", "+OK\n"} {
		words := []string{"renew", "settle", "settle"}[i]
		if got := say(words); got != want {
			t.Errorf("%d: %s is answered with %q, want %q", i, words, got, want)
		}
	}
	if arrived.Load() != 2 || w.answersLost() != 1 {
		t.Errorf("%d arrived and %d answers were lost, want 2 and 1", arrived.Load(), w.answersLost())
	}
}
