package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fleet is the program as processes: one that serves, and workers.
type fleet struct {
	program string
	env     []string
	dir     string // their HOME, and their price list

	mu      sync.Mutex
	workers []*process
	server  *process
}

// process is one running tidings.
type process struct {
	mode   string
	cmd    *exec.Cmd
	out    *lines // what it says
	errs   *lines // its log
	exited chan struct{}
	api    string // its API, for one that serves
}

// startLimit bounds the start of one process.
const startLimit = 30 * time.Second

// start starts a process and waits until it says that it is ready.
func (f *fleet) start(ctx context.Context, mode, redisAddr string) (*process, error) {
	p := &process{mode: mode, cmd: exec.Command(f.program, mode), out: newLines(), errs: newLines(), exited: make(chan struct{})}
	p.cmd.Env = append([]string{"HOME=" + f.dir, "TIDINGS_REDIS_URL=redis://" + redisAddr,
		"TIDINGS_LISTEN=127.0.0.1:0", "TIDINGS_OPS_LISTEN=127.0.0.1:0"}, f.env...)
	p.cmd.Dir = f.dir
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errs
	dieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("tidings %s: %w", mode, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }() // ends with the process
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("it is not ready in time"))
	defer cancel()
	ready, err := p.out.find(ctx, "ready ", p.exited)
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("tidings %s: %w\n%s", mode, err, p.errs)
	}
	for word := range strings.FieldsSeq(ready) {
		if v, ok := strings.CutPrefix(word, "api="); ok {
			p.api = v
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if mode == "work" {
		f.workers = append(f.workers, p)
	} else {
		f.server = p
	}
	return p, nil
}

// startWorkers starts that many, together.
func (f *fleet) startWorkers(ctx context.Context, n int, redisAddr string) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { _, errs[i] = f.start(ctx, "work", redisAddr) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// killWorkers ends all workers at once, without a chance to say goodbye.
func (f *fleet) killWorkers() {
	for _, p := range f.takeWorkers() {
		p.kill()
	}
}

// retireWorkers ends all workers as an orchestrator does, and waits for them.
func (f *fleet) retireWorkers(ctx context.Context) error {
	all := f.takeWorkers()
	for _, p := range all {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // one that is gone already has exited
	}
	var errs []error
	for _, p := range all {
		select {
		case <-p.exited:
			if code := p.cmd.ProcessState.ExitCode(); code != 0 {
				errs = append(errs, fmt.Errorf("a worker ended with %d\n%s", code, p.errs))
			}
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("a worker does not end: %w", context.Cause(ctx)))
			p.kill()
		}
	}
	return errors.Join(errs...)
}

func (f *fleet) takeWorkers() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.workers
	f.workers = nil
	return all
}

// fallen tells of a process that ended without having been asked to.
func (f *fleet) fallen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range append([]*process{f.server}, f.workers...) {
		if p == nil {
			continue
		}
		select {
		case <-p.exited:
			return fmt.Errorf("tidings %s has ended by itself (%s)\n%s", p.mode, p.cmd.ProcessState, p.errs)
		default:
		}
	}
	return nil
}

// close ends all processes.
func (f *fleet) close() {
	f.killWorkers()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server != nil {
		f.server.kill()
	}
	_ = os.RemoveAll(f.dir)
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// mostKept bounds what is kept of a process's words.
const mostKept = 16 << 10

// lines keeps the end of what is written to it, and shows whole lines.
type lines struct {
	mu      sync.Mutex
	text    []byte
	changed chan struct{}
}

func newLines() *lines { return &lines{changed: make(chan struct{}, 1)} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.text = append(l.text, b...)
	if over := len(l.text) - mostKept; over > 0 {
		l.text = l.text[over:]
	}
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// find waits for a whole line that begins so.
func (l *lines) find(ctx context.Context, begins string, exited <-chan struct{}) (string, error) {
	for {
		for line := range strings.Lines(l.String()) {
			if strings.HasPrefix(line, begins) && strings.HasSuffix(line, "\n") {
				return line, nil
			}
		}
		select {
		case <-l.changed:
		case <-exited:
			return "", errors.New("it has ended")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
