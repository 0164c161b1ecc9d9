package jobs_test

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// lifeline is what connects a process of a test with Redis, command by command.
// Cut, nothing of the process reaches Redis any more: from outside that is a
// process that was killed between two steps. Frozen, its commands wait.
type lifeline struct {
	mu     sync.Mutex
	left   int  // commands until it is cut; negative: no end
	late   bool // it dies only when it tries one more
	sent   int
	cut    chan struct{} // closed when it is cut
	over   chan struct{} // closed when the test ends
	frozen chan struct{} // closed when it thaws; nil: not frozen
	each   func(redis.Cmder)
}

var errKilled = errors.New("this process was killed")

func newLifeline() *lifeline {
	return &lifeline{left: -1, cut: make(chan struct{}), over: make(chan struct{})}
}

// cutAfter kills the process after n more commands: at once, or late, when it
// tries the next one, having done all that comes in between.
func (l *lifeline) cutAfter(n int, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.late = n, late
	if n == 0 && !late {
		l.die()
	}
}

// kill ends the process now.
func (l *lifeline) kill() { l.cutAfter(0, false) }

// die closes cut, with the lock held.
func (l *lifeline) die() {
	select {
	case <-l.cut:
	default:
		close(l.cut)
	}
}

func (l *lifeline) dead() bool {
	select {
	case <-l.cut:
		return true
	default:
		return false
	}
}

// end releases what waits, at the end of the test.
func (l *lifeline) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.over:
	default:
		close(l.over)
	}
}

func (l *lifeline) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

func (l *lifeline) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.frozen)
	l.frozen = nil
}

// look calls each with every command before it is sent; it may wait.
func (l *lifeline) look(each func(redis.Cmder)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each = each
}

func (l *lifeline) commands() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// step lets one command through, or says why not.
func (l *lifeline) step(send func() error, cmds ...redis.Cmder) error {
	if err := l.enter(cmds); err != nil {
		for _, c := range cmds {
			c.SetErr(err)
		}
		return err
	}
	err := send()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 && !l.late {
		l.die()
	}
	return err
}

func (l *lifeline) enter(cmds []redis.Cmder) error {
	l.mu.Lock()
	frozen, each := l.frozen, l.each
	l.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-l.over:
		}
	}
	if each != nil {
		for _, c := range cmds {
			each(c)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		l.die()
		return errKilled
	}
	l.sent++
	if l.left > 0 {
		l.left--
	}
	return nil
}

func (l *lifeline) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (l *lifeline) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return l.step(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (l *lifeline) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return l.step(func() error { return next(ctx, cmds) }, cmds...)
	}
}
