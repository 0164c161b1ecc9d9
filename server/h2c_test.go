package server

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// HTTP/2 frames by hand: what is sent here no client would send.
const (
	frameHeaders  = 0x1
	frameSettings = 0x4
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

func frame2(kind, flags byte, stream uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

// tableSize is a SETTINGS frame that resizes the table of the answers' headers.
func tableSize(n uint32) []byte {
	return frame2(frameSettings, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 1}, n))
}

// getLocales is a HEADERS frame that ends its stream.
func getLocales(stream uint32) []byte {
	path, host := "/api/v1/locales", "localhost"
	block := append([]byte{0x82, 0x86, 0x04, byte(len(path))}, path...)
	block = append(append(block, 0x01, byte(len(host))), host...)
	return frame2(frameHeaders, 0x5, stream, block)
}

// resize sends n requests on one connection, each between two resizes, and counts
// the answers' HEADERS frames.
func resize(t *testing.T, addr string, n int) (answers int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	go func() { // ends with the connection
		_, _ = io.WriteString(conn, preface)
		for i := range n {
			// Never more open than the server allows: it would refuse the stream.
			_, _ = conn.Write(append(append(tableSize(uint32(i%2)*4096), getLocales(uint32(2*i+1))...), tableSize(uint32(i%3)*64)...))
		}
	}()
	in := bufio.NewReader(conn)
	for head := make([]byte, 9); answers < n; {
		if _, err := io.ReadFull(in, head); err != nil {
			t.Errorf("after %d answers: %v", answers, err)
			return answers
		}
		size := int(binary.BigEndian.Uint32(head) >> 8)
		if _, err := in.Discard(size); err != nil {
			t.Error(err)
			return answers
		}
		if head[3] == frameHeaders {
			answers++
		}
	}
	return answers
}

// A stranger who resizes the header table between requests stops nothing. With
// the HPACK encoder of Go 1.26.8 this ends the process.
func TestHeaderTableResizesStopNothing(t *testing.T) {
	h := newTCPTestbed(t, func(o *Options) { o.H2C = true })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if n := resize(t, h.api.Addr().String(), 200); n != 200 {
				t.Errorf("%d answers of 200", n)
			}
		})
	}
	all.Wait()
	if a := h.do(t, "GET", "/api/v1/locales", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// Without being asked for, HTTP/2 without TLS is on no listener.
func TestHTTP2WithoutTLSIsOff(t *testing.T) {
	for _, on := range []bool{false, true} {
		h := newTCPTestbed(t, func(o *Options) { o.H2C = on })
		for _, l := range []net.Listener{h.api, h.ops} {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := conn.Write(append([]byte(preface), tableSize(0)...)); err != nil {
				t.Fatal(err)
			}
			got, _ := bufio.NewReader(io.LimitReader(conn, 9)).ReadString(0xff)
			conn.Close()
			if spoken := len(got) == 9 && !strings.HasPrefix(got, "HTTP/1.1"); spoken != on {
				t.Errorf("H2C %v: answered %q", on, got)
			}
		}
	}
}
