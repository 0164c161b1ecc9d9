package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium that tests drive through its debugging pipe:
// JSON texts that end with a zero byte, in on its file 3, out on its file 4.
type browser struct {
	t  *testing.T
	to *os.File

	mu      sync.Mutex
	asked   int
	waiting map[int]chan reply
	loads   chan struct{}
	said    []string // what its console shows, and whatever else went wrong
	session string
}

type reply struct {
	ID     int
	Result json.RawMessage
	Error  *struct{ Message string }

	Method    string
	Params    json.RawMessage
	SessionID string
}

// startBrowser opens one page in a browser of its own.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("this test looks at the operators' page in a browser. Install: chromium (apt-get install chromium)")
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+home, "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TZ=UTC"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close() // the browser's ends
	b := &browser{t: t, to: to, waiting: map[int]chan reply{}, loads: make(chan struct{}, 100)}
	read := make(chan struct{})
	go func() { // ends with the browser
		defer close(read)
		b.read(bufio.NewReader(from))
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = to.Close()
		<-read
		_ = from.Close()
	})
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.do("Target.getTargets", nil, &targets)
	page := ""
	for _, target := range targets.TargetInfos {
		if target.Type == "page" {
			page = target.TargetID
		}
	}
	var attached struct{ SessionID string }
	b.do("Target.attachToTarget", map[string]any{"targetId": page, "flatten": true}, &attached)
	b.mu.Lock()
	b.session = attached.SessionID
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.do(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) read(from *bufio.Reader) {
	for {
		text, err := from.ReadBytes(0)
		if err != nil {
			return
		}
		var r reply
		if err := json.Unmarshal(text[:len(text)-1], &r); err != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case r.ID != 0:
			if c := b.waiting[r.ID]; c != nil {
				c <- r
				delete(b.waiting, r.ID)
			}
		case r.Method == "Page.loadEventFired":
			b.loads <- struct{}{}
		case r.Method == "Runtime.consoleAPICalled", r.Method == "Runtime.exceptionThrown", r.Method == "Log.entryAdded", r.Method == "Network.loadingFailed":
			b.said = append(b.said, r.Method+" "+string(r.Params))
		}
		b.mu.Unlock()
	}
}

// do calls a method of the browser and reads its result.
func (b *browser) do(method string, params, into any) {
	b.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	b.mu.Lock()
	b.asked++
	id, answer := b.asked, make(chan reply, 1)
	b.waiting[id] = answer
	call := map[string]any{"id": id, "method": method, "params": params}
	if b.session != "" {
		call["sessionId"] = b.session
	}
	b.mu.Unlock()
	text, err := json.Marshal(call)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			b.t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if into != nil {
			if err := json.Unmarshal(r.Result, into); err != nil {
				b.t.Fatalf("%s: %v in %s", method, err, r.Result)
			}
		}
	case <-time.After(wait):
		b.t.Fatalf("%s: the browser does not answer", method)
	}
}

// open goes to an address and waits until it is shown.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do("Page.navigate", map[string]any{"url": url}, nil)
	b.loaded()
}

func (b *browser) loaded() {
	b.t.Helper()
	select {
	case <-b.loads:
	case <-time.After(wait):
		b.t.Fatal("the page is never shown")
	}
}

// js evaluates an expression in the page and returns its value.
func (b *browser) js(expression string, into any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, got.ExceptionDetails)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(got.Result.Value, into); err != nil {
		b.t.Fatalf("%s: %v in %s", expression, err, got.Result.Value)
	}
}

// text is what a reader sees of what the selector finds.
func (b *browser) text(selector string) string {
	b.t.Helper()
	var text string
	b.js(fmt.Sprintf("(document.querySelector(%q)||{}).innerText||''", selector), &text)
	return text
}

// press strikes a key as a person does.
func (b *browser) press(key string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Space": 32}
	down := map[string]any{"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		down["type"], down["text"] = "keyDown", "\r"
	}
	b.do("Input.dispatchKeyEvent", down, nil)
	b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// fill focuses a field, as its label does, and types into it.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.js(fmt.Sprintf("(()=>{const e=document.querySelector(%q);e.focus();if(e.select)e.select()})()", selector), nil)
	b.do("Input.insertText", map[string]any{"text": text}, nil)
}

// dress sets the colours and the width that the reader prefers.
func (b *browser) dress(scheme string, width int) {
	b.t.Helper()
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// keep writes a picture of the whole page to the directory of TIDINGS_SCREENSHOTS, for
// people who want to look at it.
func (b *browser) keep(name string) {
	b.t.Helper()
	dir := os.Getenv("TIDINGS_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.do("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
	}
	if err != nil {
		b.t.Error(err)
	}
}

// quiet fails when anything was said on the console since it was last asked, but
// for these words.
func (b *browser) quiet(but ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.said {
		expected := false
		for _, words := range but {
			expected = expected || strings.Contains(line, words)
		}
		if !expected {
			b.t.Errorf("the browser complains: %s", line)
		}
	}
	b.said = nil
}
