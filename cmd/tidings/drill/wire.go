package drill

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
)

// wire carries the workers' connections to Redis, and can lose an answer: what
// was sent arrives and is done, and whoever sent it never hears so.
type wire struct {
	addr   string
	to     string
	listen net.Listener

	mu    sync.Mutex
	open  map[net.Conn]bool
	lose  []byte // answers to what contains this are lost
	times int    // as often as this
	lost  int
	ended bool
}

func newWire(to string) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the line to Redis: %w", err)
	}
	w := &wire{addr: l.Addr().String(), to: to, listen: l, open: map[net.Conn]bool{}}
	go w.accept() // ends with close
	return w, nil
}

// loseAnswers loses the next answers to requests with these words.
func (w *wire) loseAnswers(words string, times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose, w.times = []byte(words), times
}

// answersLost is how many were.
func (w *wire) answersLost() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

func (w *wire) close() {
	_ = w.listen.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for c := range w.open {
		_ = c.Close()
	}
}

func (w *wire) accept() {
	for {
		from, err := w.listen.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		to, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		if w.keep(from, to) {
			l := &link{wire: w, from: from, to: to}
			go l.up()   // both end when one side closes, or with close
			go l.down() //
		}
	}
}

// keep notes connections to be closed at the end.
func (w *wire) keep(all ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range all {
		if w.ended {
			_ = c.Close()
			continue
		}
		w.open[c] = true
	}
	return !w.ended
}

// due tells whether the answer to this is to be lost.
func (w *wire) due(sent []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.times == 0 || len(w.lose) == 0 || !bytes.Contains(sent, w.lose) {
		return false
	}
	w.times--
	w.lost++
	return true
}

// link is one connection.
type link struct {
	*wire
	from, to net.Conn
	mu       sync.Mutex
	deaf     bool // what comes back now is lost
}

func (l *link) end() {
	_, _ = l.from.Close(), l.to.Close()
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	delete(l.open, l.from)
	delete(l.open, l.to)
}

// up carries requests. One that is cut in two by the buffer is still found: the
// words may stand in what remains of the piece before.
func (l *link) up() {
	defer l.end()
	buffer := make([]byte, 64<<10)
	var before []byte
	for {
		n, err := l.from.Read(buffer)
		if n > 0 {
			sent := append(before, buffer[:n]...)
			if l.due(sent) {
				l.mu.Lock()
				l.deaf = true
				l.mu.Unlock()
				sent = nil
			}
			before = append([]byte(nil), sent[max(0, len(sent)-64):]...)
			if _, err := l.to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// down carries answers, until one is to be lost: then the connection breaks,
// when Redis has answered and so has done it.
func (l *link) down() {
	defer l.end()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.to.Read(buffer)
		l.mu.Lock()
		deaf := l.deaf
		l.mu.Unlock()
		if err != nil || deaf {
			return
		}
		if _, err := l.from.Write(buffer[:n]); err != nil {
			return
		}
	}
}
