package tidings

import (
	"bytes"
	"errors"
	"math"
)

// ErrTooLong is returned by [Parser.Feed] when a line or a block holds more
// bytes than the parser's limit. The stream is of no use after it.
var ErrTooLong = errors.New("tidings: a line or block of the stream is too long")

// DefaultLimit is how many bytes one line, and the data of one block, may hold.
const DefaultLimit = 1 << 20

// maxRetry bounds what a retry line can say, in milliseconds.
const maxRetry = math.MaxInt32

// Message is one event as the stream carried it, before anybody has looked at
// what it means.
type Message struct {
	ID    string // the last event id, sticky: an event without one carries the one before
	Event string // the type, "message" when the stream named none
	Data  string // the data lines, joined with LF
}

// Parser turns the bytes of one event stream into messages. It does no I/O,
// keeps no more than one line and one block, and looks at each byte once. It
// hands a message out with the byte that ends it: it never waits for the next
// one to tell a CR from a CR LF.
//
// A parser serves one stream. The stream after it gets a new one, made with the
// LastEventID of this one.
type Parser struct {
	// OnMessage is called for each event, inside Feed.
	OnMessage func(Message)
	// OnRetry is called with the milliseconds of each valid retry line, inside Feed.
	OnRetry func(ms int)
	// Limit replaces DefaultLimit when it is not 0.
	Limit int

	err     error
	bom     int  // how many bytes of a byte order mark have been seen; -1 once past the start
	afterCR bool // an LF that comes now belongs to the CR before it
	line    []byte
	data    []byte
	hasData bool
	event   string
	idBuf   string // committed to lastID by the end of the block
	lastID  string
	retry   int // -1 until a valid retry line was read
}

// NewParser makes a parser for a stream that was asked for with lastEventID, ""
// for the first.
func NewParser(lastEventID string) *Parser {
	return &Parser{idBuf: lastEventID, lastID: lastEventID, retry: -1}
}

// LastEventID is the id to resume after. It moves at the end of a block, even of
// one that carried no event, so what the end of the stream cut off does not count.
func (p *Parser) LastEventID() string { return p.lastID }

// Retry is the server's newest wish for the time between two connections, in
// milliseconds; ok is false while it has none.
func (p *Parser) Retry() (ms int, ok bool) { return max(p.retry, 0), p.retry >= 0 }

// Feed reads the next bytes, however the network has cut them. It fails only
// with ErrTooLong, and then keeps failing.
func (p *Parser) Feed(chunk []byte) error {
	if p.err != nil {
		return p.err
	}
	chunk = p.skipBOM(chunk)
	for len(chunk) > 0 {
		if p.afterCR {
			p.afterCR = false
			if chunk[0] == '\n' {
				chunk = chunk[1:]
				continue
			}
		}
		end := lineEnd(chunk)
		if len(p.line)+end > p.limit() {
			return p.fail()
		}
		if end == len(chunk) {
			p.line = append(p.line, chunk...)
			return nil
		}
		line := chunk[:end]
		if len(p.line) > 0 {
			p.line = append(p.line, line...)
			line = p.line
		}
		p.afterCR = chunk[end] == '\r'
		chunk = chunk[end+1:]
		if err := p.take(line); err != nil {
			return err
		}
		p.line = p.line[:0]
	}
	return nil
}

// lineEnd is the index of the first CR or LF, or the length.
func lineEnd(b []byte) int {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			return i
		}
	}
	return len(b)
}

// skipBOM drops the byte order mark that may open the stream, in one chunk or in
// three. Bytes that only looked like one go to the line they belong to.
func (p *Parser) skipBOM(chunk []byte) []byte {
	const mark = "\xEF\xBB\xBF"
	for p.bom >= 0 && len(chunk) > 0 {
		if chunk[0] != mark[p.bom] {
			p.line = append(p.line, mark[:p.bom]...)
			p.bom = -1
			break
		}
		chunk = chunk[1:]
		if p.bom++; p.bom == len(mark) {
			p.bom = -1
		}
	}
	return chunk
}

func (p *Parser) take(line []byte) error {
	if len(line) == 0 {
		p.endBlock()
		return nil
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) { // "" is a comment
	case "data":
		text := decodeUTF8(value)
		if len(p.data)+len(text) >= p.limit() {
			return p.fail()
		}
		p.data = append(append(p.data, text...), '\n')
		p.hasData = true
	case "event":
		p.event = decodeUTF8(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.idBuf = decodeUTF8(value)
		}
	case "retry":
		if ms, ok := digits(value); ok {
			p.retry = ms
			if p.OnRetry != nil {
				p.OnRetry(ms)
			}
		}
	}
	return nil
}

func (p *Parser) endBlock() {
	p.lastID = p.idBuf
	if p.hasData && p.OnMessage != nil {
		m := Message{ID: p.lastID, Event: p.event, Data: string(p.data[:len(p.data)-1])}
		if m.Event == "" {
			m.Event = "message"
		}
		p.OnMessage(m)
	}
	p.data, p.hasData, p.event = p.data[:0], false, ""
}

func (p *Parser) limit() int {
	if p.Limit > 0 {
		return p.Limit
	}
	return DefaultLimit
}

func (p *Parser) fail() error {
	p.err, p.line, p.data = ErrTooLong, nil, nil
	return p.err
}

// digits reads a number of ASCII digits and nothing else, held at maxRetry.
func digits(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), maxRetry)
	}
	return n, len(b) > 0
}
