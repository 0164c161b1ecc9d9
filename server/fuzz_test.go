package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/locales"
)

func FuzzSessionID(f *testing.F) {
	for _, s := range append(hostileIDs(), session, "", "user:7._-9", "æ", "\r\n") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if !validSession(id) {
			return
		}
		topic := events.NewTopic("", id, "summary")
		if back, err := events.ParseTopic(topic.String()); err != nil || back != topic {
			t.Errorf("%q does not survive its own key: %v, %v", id, back, err)
		}
		if strings.ContainsAny(id, "\r\n/?#%{} ") || len(id) > maxSessionID {
			t.Errorf("%q is taken", id)
		}
	})
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "0", "1775563260000", "9007199254740991", "9007199254740992", "-1", "+5", "1700-0", "e1:7", "٣", "1\n2", strings.Repeat("9", 400)} {
		f.Add(s, "7")
		f.Add("", s)
	}
	f.Fuzz(func(t *testing.T, header, query string) {
		c := cursorOf(header, query)
		if c.given != (header != "" || query != "") || c.known && !c.given {
			t.Errorf("%q, %q: %+v", header, query, c)
		}
		if c.seq < 0 || c.seq > maxCursor || !c.known && c.seq != 0 {
			t.Errorf("%q, %q: %+v", header, query, c)
		}
		if p := c.place(); c.known && p != c.seq || !c.known && p != -1 {
			t.Errorf("%q, %q: place %d", header, query, p)
		}
	})
}

func FuzzSubmitBody(f *testing.F) {
	for _, s := range []string{`{"input":{"text":"a"},"language":"de","simulate":["503"]}`, `{"input":{"messages":[{"role":"user","content":"a"},null]}}`,
		`{"input":{"text":"a"}} x`, `{"input":1}`, `[]`, `{"Input":{"text":"a"}}`, `{"input":{"text":"a"},"input":{"text":2}}`, `{"a\r\nb":1}`, ``, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sub, _, err := submitBody(b)
		var p *problem
		switch {
		case err == nil:
			if len(sub.Input.Messages) > jobs.MaxMessages || len(sub.Simulate) > maxSimulate || sub.Language != "" && !plausible(sub.Language) {
				t.Errorf("taken: %+v", sub)
			}
		case !errors.As(err, &p):
			t.Errorf("%q: not a problem: %v", b, err)
		default:
			if status, _ := statusOf(p.code); status != http.StatusBadRequest {
				t.Errorf("%q: status %d", b, status)
			}
			if strings.ContainsAny(p.field+p.hint, "\r\n<>\x00") || len(p.field) > 100 {
				t.Errorf("%q: says back %q, %q", b, p.field, p.hint)
			}
		}
	})
}

func FuzzAcceptLanguage(f *testing.F) {
	texts, err := locales.Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "de", "no-NO,nn;q=0.9", "*;q=0", ";;;", "zh-Hant-TW;q=1.001", "a\r\nb", strings.Repeat("de,", 2000)} {
		f.Add(s, "")
		f.Add("", s)
	}
	r := newRenderer(texts, time.Now)
	f.Fuzz(func(t *testing.T, explicit, header string) {
		lang := texts.Match(explicit, header)
		if len(lang) != 2 {
			t.Fatalf("%q, %q: language %q", explicit, header, lang)
		}
		tr := retryingQueue(1, 0)
		tr.Seq, tr.MaxAttempts = 1, 4
		data, err := r.event(summary(session), tr, form{lang: lang})
		if err != nil || bytes.ContainsAny(data, "\r\n") {
			t.Errorf("%q, %q: %v %q", explicit, header, err, data)
		}
	})
}

// FuzzArrange reads back what arrange makes of frames as r3labs writes them.
func FuzzArrange(f *testing.F) {
	f.Add("1775563260000", "retrying", `{"message":"Retrying in 30s (attempt 2/4)…"}`)
	f.Add("", "idle", `{}`)
	f.Add("", "", "two\nlines")
	f.Fuzz(func(t *testing.T, id, event, data string) {
		if strings.ContainsAny(id+event, "\r\n\x00") || strings.ContainsAny(data, "\r\x00") || data == "" {
			return // the renderer makes none of these
		}
		var raw bytes.Buffer // as r3labs writes it
		fmt.Fprintf(&raw, "id: %s\n", id)
		for line := range strings.SplitSeq(data, "\n") {
			fmt.Fprintf(&raw, "data: %s\n", line)
		}
		if event != "" {
			fmt.Fprintf(&raw, "event: %s\n", event)
		}
		raw.WriteString("\n")
		got := arrange(raw.Bytes())
		r := newReader(bytes.NewReader(got))
		m := r.next()
		if m.err != nil || m.event != event || m.data != data || m.id != id {
			t.Errorf("%q reads as %+v", got, m)
		}
		if id == "" && bytes.HasPrefix(got, []byte("id:")) {
			t.Errorf("an empty id is written: %q", got)
		}
	})
}
