package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/server"
)

// The doctor looks at the real server through proxies that each do one thing
// wrong. All of it happens in virtual time: what comes late, comes late by what
// the proxy does and by nothing else.

// failures are the names of the checks that failed.
func failures(text string) (names []string) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); f[0] == "FAILED" {
			names = append(names, f[1])
		}
	}
	return names
}

func slowHeartbeat(o *server.Options) { o.Heartbeat = time.Minute }

func TestTheDoctorFindsWhatProxiesDo(t *testing.T) {
	header := func(name, value string) func(*http.Response) {
		return func(r *http.Response) {
			if r.Header.Del(name); value != "" {
				r.Header.Set(name, value)
			}
		}
	}
	drop := func(name string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(name) } }
	filter := func(change func(string) string) func(*flushing, io.Reader) {
		return func(w *flushing, from io.Reader) {
			pieces(from, func(b []byte) { _, _ = io.WriteString(w, change(string(b))) })
		}
	}
	// cutting ends a stream on which nothing came for that long.
	cutting := func(after time.Duration, end func()) func(*flushing, io.Reader) {
		return func(w *flushing, from io.Reader) {
			came, gone := make(chan []byte), make(chan struct{})
			defer close(gone)
			go func() {
				defer close(came)
				pieces(from, func(b []byte) {
					select {
					case came <- bytes.Clone(b):
					case <-gone:
					}
				})
			}()
			for {
				select {
				case b, ok := <-came:
					if !ok {
						return
					}
					_, _ = w.Write(b)
				case <-time.After(after):
					end()
					return
				}
			}
		}
	}
	all := func(w *flushing, from io.Reader) {
		b, _ := io.ReadAll(from)
		_, _ = w.Write(b)
	}
	oneBehind := func(w *flushing, from io.Reader) {
		var last []byte
		pieces(from, func(b []byte) {
			_, _ = w.Write(last)
			last = bytes.Clone(b)
		})
		_, _ = w.Write(last)
	}
	squeeze := func(r *http.Response) {
		if strings.Contains(r.Request.Header.Get("Accept-Encoding"), "gzip") {
			r.Header.Set("Content-Encoding", "gzip")
		}
	}
	squeezed := func(w *flushing, from io.Reader) {
		if w.Header().Get("Content-Encoding") == "" {
			_, _ = io.Copy(w, from)
			return
		}
		z := gzip.NewWriter(w)
		pieces(from, func(b []byte) { _, _ = z.Write(b); _ = z.Flush() })
		_ = z.Close()
	}
	idle := doctorCommand{Idle: 70 * time.Second}

	for _, c := range []struct {
		name    string
		front   front
		command doctorCommand
		options []func(*server.Options)
		want    []string // the checks that fail
		says    []string
	}{
		{name: "nothing", command: idle, says: []string{"HTTP/1.1 from here", "1 hops named", "5 of 5 events", "open through 1m10s", "all OK"}},
		{name: "nothing, without idle", says: []string{"--idle 70s", "all OK"}},
		{name: "holds all back", front: front{body: all}, command: idle,
			want: []string{"buffering"}, says: []string{"until the stream ends", "proxy_buffering off", "as long as streams are held back"}},
		{name: "is one behind", front: front{body: oneBehind}, want: []string{"buffering"}, says: []string{"5 of 5 events came only when"}},
		{name: "holds four behind", front: front{body: func(w *flushing, from io.Reader) {
			n, held := 0, []byte(nil)
			pieces(from, func(b []byte) {
				held = append(held, b...)
				if n++; n%4 == 0 {
					_, _ = w.Write(held)
					held = nil
				}
			})
			_, _ = w.Write(held)
		}}, want: []string{"buffering"}},
		{name: "compresses", front: front{response: squeeze, body: squeezed}, want: []string{"compression"}, says: []string{"as gzip", "gzip_types"}},
		{name: "compresses as something else", front: front{response: func(r *http.Response) {
			if squeeze(r); r.Header.Get("Content-Encoding") != "" {
				r.Header.Set("Content-Encoding", "br")
			}
		}}, want: []string{"compression"}, says: []string{"as br"}},
		{name: "cuts the silent", front: front{body: cutting(20*time.Second, func() { panic(http.ErrAbortHandler) })}, command: idle,
			options: []func(*server.Options){slowHeartbeat}, want: []string{"idle"},
			says: []string{"cut 20s after the last byte", "a comment every 1m0s", "four comments, 4m0s", "proxy_read_timeout"}},
		{name: "cuts the silent and calls it an end", front: front{body: cutting(20*time.Second, func() {})}, command: idle,
			options: []func(*server.Options){slowHeartbeat}, want: []string{"idle"}, says: []string{"as if it were complete"}},
		{name: "cuts whom comments keep alive", front: front{body: cutting(20*time.Second, func() { panic(http.ErrAbortHandler) })}, command: idle},
		{name: "swallows comments", front: front{body: filter(func(s string) string { return strings.ReplaceAll(s, ": alive\n", "") })},
			command: idle, want: []string{"idle"}, says: []string{"not one comment"}},
		{name: "drops Last-Event-ID", front: front{request: drop("Last-Event-ID")}, want: []string{"cursor"}, says: []string{"do not resume"}},
		{name: "drops Authorization", front: front{request: drop("Authorization")}, want: []string{"token"}},
		{name: "drops the query", front: front{request: func(r *http.Request) { r.URL.RawQuery = "" }}, want: []string{"query"}},
		{name: "drops Cache-Control", front: front{response: header("Cache-Control", "")}, want: []string{"headers"},
			says: []string{`Cache-Control (sent "no-cache, no-transform", came "")`}},
		{name: "changes the type", front: front{response: header("Content-Type", "text/plain")}, want: []string{"headers"}},
		{name: "drops a header that nothing depends on", front: front{response: header("X-Request-Id", "")}, says: []string{"NOTE    headers", "all OK"}},
		{name: "takes X-Accel-Buffering for itself", front: front{response: header("X-Accel-Buffering", "")}, says: []string{"OK      headers"}},
		{name: "is far away", front: front{body: func(w *flushing, from io.Reader) {
			type piece struct {
				text []byte
				due  time.Time
			}
			way, arrived := make(chan piece, 100), make(chan struct{})
			go func() {
				defer close(arrived)
				for p := range way {
					time.Sleep(time.Until(p.due))
					_, _ = w.Write(p.text)
				}
			}()
			pieces(from, func(b []byte) { way <- piece{bytes.Clone(b), time.Now().Add(7 * time.Second)} })
			close(way)
			<-arrived
		}}, says: []string{"first event came after 7000 ms", "5 of 5 events came before", "all OK"}},
		{name: "stalls twice", front: front{body: func(w *flushing, from io.Reader) {
			n := 0
			pieces(from, func(b []byte) {
				if n++; n == 3 {
					time.Sleep(1100 * time.Millisecond)
				}
				_, _ = w.Write(b)
			})
		}}, says: []string{"3 of 5 events came before", "all OK"}},
		{name: "holds back the first time alone", front: front{body: func(w *flushing, from io.Reader) {
			if w.trip == 1 {
				all(w, from)
				return
			}
			_, _ = io.Copy(w, from)
		}}, says: []string{"5 of 5 events came before", "all OK"}},
		{name: "loses an event", front: front{body: filter(func(s string) string {
			if strings.HasPrefix(s, "id: 3\n") {
				return ""
			}
			return s
		})}, want: []string{"events"}, says: []string{"of 6 came 1 2 4 5 6"}},
		{name: "loses ids", front: front{body: filter(func(s string) string { return strings.Replace(s, "id: 2\n", "", 1) })}, want: []string{"events"}},
		{name: "ends what is long", front: front{body: func(w *flushing, from io.Reader) {
			time.AfterFunc(1200*time.Millisecond, func() { _ = from.(io.Closer).Close() })
			_, _ = io.Copy(w, from)
		}}, want: []string{"events"}, says: []string{"of 6 came 1 2 3 "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				code, text := examined(t, &c.front, c.command, c.options...)
				if got := failures(text); !slices.Equal(got, c.want) || (code == 0) != (len(c.want) == 0) {
					t.Errorf("exit code %d, failed %q, want %q", code, got, c.want)
				}
				for _, words := range c.says {
					if !strings.Contains(text, words) {
						t.Errorf("%q is not said", words)
					}
				}
				if t.Failed() {
					t.Log("\n" + text)
				}
			})
		})
	}
}

func TestTheDoctorSaysWhyThereIsNoProbe(t *testing.T) {
	answer := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			name, value, _ := strings.Cut(header, ": ")
			w.Header().Set(name, value)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	const ours = "Content-Type: application/problem+json"
	for name, c := range map[string]struct {
		instead http.HandlerFunc
		says    []string
	}{
		"a redirect":       {answer(301, "Location: https://tidings.test/", ""), []string{"301", "to https://tidings.test/", "address it leads to"}},
		"another program":  {answer(404, "Content-Type: text/html", "<html>"), []string{"404", "not a Tidings"}},
		"an old Tidings":   {answer(404, ours, `{"code":"not_found","title":"Not found"}`), []string{"knows no probes"}},
		"a web page":       {answer(200, "Content-Type: text/html", "<html>\n"), []string{"text/html", "not one event"}},
		"another stream":   {answer(200, "Content-Type: text/event-stream", "data: {\"hello\":1}\n\n"), []string{"an event that is no probe's"}},
		"a gate":           {answer(401, "WWW-Authenticate: Basic", ""), []string{"TIDINGS_TOKEN"}},
		"a lost upstream":  {answer(502, "Server: nginx", ""), []string{"502", "does it reach it"}},
		"too many":         {answer(429, ours, `{"code":"too_many_streams","title":"Too\u001b[2J many"}`), []string{"too many probes"}},
		"the way down":     {answer(503, ours, `{"code":"draining"}`), []string{"shutting down"}},
		"br, unasked":      {answer(200, "Content-Encoding: br", "x"), []string{"compressed as br"}},
		"neither ends nor": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, []string{"Not even headers came"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				code, text := examined(t, &front{instead: c.instead}, doctorCommand{})
				if code != exitFailed || strings.Contains(text, "\x1b") {
					t.Errorf("exit code %d", code)
				}
				for _, words := range c.says {
					if !strings.Contains(text, words) {
						t.Errorf("%q is not said", words)
					}
				}
				if t.Failed() {
					t.Logf("%q", text)
				}
			})
		})
	}
}

// A hop that speaks HTTP/1.0 in both directions.
func TestTheDoctorSeesHTTP10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin, outside := onWires(t, probed(t)), newWires()
		t.Cleanup(outside.close)
		go func() {
			for {
				here, err := outside.Accept()
				if err != nil {
					return
				}
				there, err := origin.dial(t.Context(), "", "")
				if err != nil {
					return
				}
				go func() { // ends with the connection: one request each
					defer here.Close()
					defer there.Close()
					in := bufio.NewReader(here)
					line, _ := in.ReadString('\n')
					go func() {
						_, _ = io.Copy(there, io.MultiReader(strings.NewReader(strings.Replace(line, "HTTP/1.1", "HTTP/1.0", 1)), in))
					}()
					_, _ = io.Copy(here, there)
				}()
			}
		}()
		code, text := doctored(t, outside, doctorCommand{})
		if code != 0 || !strings.Contains(text, "HTTP/1.0 from here") || !strings.Contains(text, "HTTP/1.0 at Tidings") || !strings.Contains(text, "proxy_http_version 1.1") {
			t.Errorf("exit code %d\n%s", code, text)
		}
	})
}

func TestTheDoctorSeesHTTP2AndBadCertificates(t *testing.T) {
	s := httptest.NewUnstartedServer(probed(t).API())
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it is provoked below
	s.StartTLS()
	defer s.Close()

	out := newOutput()
	d := newDoctor(doctorCommand{URL: s.URL}, out)
	if code := d.run(t.Context()); code != exitFailed || !strings.Contains(out.String(), "Clients refuse this certificate too") {
		t.Errorf("a certificate that nobody knows: exit code %d\n%s", code, out)
	}

	out = newOutput()
	d = newDoctor(doctorCommand{URL: s.URL}, out)
	d.client.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	if code := d.run(t.Context()); code != 0 || !strings.Contains(out.String(), "OK      version      HTTP/2.0") {
		t.Errorf("HTTP/2: exit code %d\n%s", code, out)
	}

	out = newOutput()
	d = newDoctor(doctorCommand{URL: strings.Replace(s.URL, "https", "http", 1)}, out)
	if code := d.run(t.Context()); code != exitFailed || !strings.Contains(out.String(), "give https://") {
		t.Errorf("http at a port with TLS: exit code %d\n%s", code, out)
	}
}

func TestTheDoctorRefusesWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{"tidings.example.com", "ftp://tidings.example.com", "http://", ":"} {
		out := newOutput()
		if code := newDoctor(doctorCommand{URL: address}, out).run(t.Context()); code != exitFailed || !strings.Contains(out.String(), wantURL) {
			t.Errorf("%q: exit code %d\n%s", address, code, out)
		}
	}
}

func TestTheDoctorCanBeInterruptedAndTakesATokenAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tokens []string
		gate := &front{request: func(r *http.Request) { tokens = append(tokens, r.Header.Get("Authorization")) }}
		if code, text := examined(t, gate, doctorCommand{Token: "s3cret"}); code != 0 || strings.Contains(text, "s3cret") {
			t.Errorf("exit code %d\n%s", code, text)
		}
		if want := slices.Repeat([]string{"Bearer s3cret"}, 3); !slices.Equal(tokens, want) {
			t.Errorf("sent %q", tokens)
		}
		w := newWires()
		t.Cleanup(w.close)
		d := newDoctor(doctorCommand{URL: "http://tidings.test"}, io.Discard)
		d.client.Transport = w.transport(t)
		ctx, interrupt := context.WithTimeout(t.Context(), time.Second)
		defer interrupt()
		if code := d.run(ctx); code != watchInterrupted {
			t.Errorf("interrupted: exit code %d", code)
		}
	})
}
