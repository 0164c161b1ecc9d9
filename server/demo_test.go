package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidings/tidings/events"
)

func inDev(o *Options) { o.Dev = true }

// demoFingerprint is what clients/web/demo/build.mjs computes: a hash of all
// the page is made from.
func demoFingerprint(t *testing.T) string {
	t.Helper()
	web := filepath.Join("..", "clients", "web")
	names := []string{"demo/build.mjs"}
	for _, dir := range []string{"src", "demo/src"} {
		err := filepath.WalkDir(filepath.Join(web, dir), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(web, file)
			names = append(names, filepath.ToSlash(name))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(web, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(slices.Concat([]byte(name), []byte{0}, text, []byte{0}))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func TestTheDemoPageIsAsNewAsItsSources(t *testing.T) {
	page, err := demoFiles.ReadFile("demo/index.html")
	if err != nil {
		t.Fatal(err)
	}
	want := `<meta name="sources" content="` + demoFingerprint(t) + `">`
	if !bytes.Contains(page, []byte(want)) {
		t.Error("the demo page is older than clients/web: run npm ci && npm run build:demo there, and commit server/demo")
	}
}

func TestInDevTheDemoPageIsServedWithAllItNeeds(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		page := h.send(t, "http://page/", http.MethodGet, "")
		if page.status != 200 || page.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%d %s", page.status, page.header.Get("Content-Type"))
		}
		if inline := regexp.MustCompile(`<script>|<style|\sstyle=|\son[a-z]+=`).Find(page.body); inline != nil {
			t.Errorf("the page has %s, which its policy does not allow", inline)
		}
		linked := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllSubmatch(page.body, -1)
		if len(linked) != len(demoTypes()) {
			t.Errorf("the page links %d files, there are %d", len(linked), len(demoTypes()))
		}
		paths := []string{"/"}
		for _, m := range linked {
			paths = append(paths, string(m[1]))
		}
		for _, path := range paths {
			a := h.send(t, "http://page"+path, http.MethodGet, "")
			kind := a.header.Get("Content-Type")
			if want, ok := demoTypes()[filepath.Base(path)]; a.status != 200 || len(a.body) == 0 || ok && kind != want {
				t.Errorf("%s: %d, %s, %d bytes", path, a.status, kind, len(a.body))
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": demoPolicy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer",
			} {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", path, name, got, want)
				}
			}
			if again := h.send(t, "http://page"+path, http.MethodGet, "", "If-None-Match: "+a.header.Get("ETag")); again.status != 304 || len(again.body) != 0 {
				t.Errorf("%s: asked again it is %d with %d bytes", path, again.status, len(again.body))
			}
			if head := h.send(t, "http://page"+path, http.MethodHead, ""); head.status != 200 || len(head.body) != 0 {
				t.Errorf("%s: HEAD is %d", path, head.status)
			}
		}
	}, inDev)
}

func TestOutsideOfDevThereIsNoDemoPageAndNothingToCut(t *testing.T) {
	inTestbed(t, func(t *testing.T, h *testbed) {
		h.happen(t, summary(session), queued())
		r := h.open(t, statusPath)
		r.want(t, "queued")
		for _, path := range []string{"/", "/demo/demo.js", "/demo/demo.css", "/demo/icon.svg", "/demo/index.html"} {
			if a := h.do(t, http.MethodGet, path, ""); a.status != 404 {
				t.Errorf("%s is %d", path, a.status)
			}
		}
		if a := h.do(t, http.MethodDelete, "/dev/sessions/"+session+"/summary/streams", ""); a.status != 404 {
			t.Errorf("cutting is %d", a.status)
		}
		h.happen(t, summary(session), processing(1, 1)) // the stream has lived on
		r.want(t, "processing")
	})
}

func TestACutStreamBreaksOffAndTheNextOneGoesOnWhereItStopped(t *testing.T) {
	h := newTCPTestbed(t, inDev)
	topic := summary(session)
	h.happen(t, topic, queued())
	cut, other := h.open(t, statusPath), h.open(t, strings.Replace(statusPath, "summary", "guidance", 1))
	other.want(t, "idle")
	last := cut.want(t, "queued")

	a := h.send(t, "http://page/dev/sessions/"+session+"/summary/streams", http.MethodDelete, "")
	if a.status != 200 || string(a.body) != `{"cut":1}` {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if m := cut.next(); !errors.Is(m.err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ended with %v, and not in the middle", m.err)
	}
	if metrics := h.doOps(t, http.MethodGet, "/metrics").body; !bytes.Contains(metrics, []byte(`tidings_streams_ended_total{why="cut"} 1`)) {
		t.Error("the cut is not counted")
	}

	h.happen(t, topic, processing(1, 1)) // while nobody listened
	again := h.open(t, statusPath, "Last-Event-ID: "+last.id)
	again.want(t, "processing")
	h.happen(t, topic, completed(1))
	again.want(t, "completed")
	if m := again.next(); !errors.Is(m.err, io.EOF) {
		t.Errorf("the second stream ended with %v", m.err)
	}

	if a := h.send(t, "http://page/dev/sessions/"+session+"/summary/streams", http.MethodDelete, ""); string(a.body) != `{"cut":0}` {
		t.Errorf("nothing is open, and cut was %s", a.body)
	}
	h.happen(t, events.NewTopic("", session, "guidance"), queued()) // the other workload's stream was left alone
	other.want(t, "queued")
}
