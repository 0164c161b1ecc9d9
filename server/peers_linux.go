package server

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// peers hears from the kernel of parked connections that their other side has
// closed, or that take bytes again. All else is found out by writing.
type peers struct {
	epoll int
	alarm int // an eventfd: the end
	ended chan struct{}

	mu   sync.Mutex
	byFD []*parked
	keys uint32
}

const heardAtOnce = 256

func newPeers() (*peers, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	alarm, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, alarm, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(alarm)})
	}
	if err != nil {
		_ = unix.Close(epoll)
		return nil, err
	}
	return &peers{epoll: epoll, alarm: alarm, ended: make(chan struct{})}, nil
}

// add begins to listen for a connection's end.
func (p *peers) add(c *parked) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if missing := c.fd + 1 - len(p.byFD); missing > 0 {
		p.byFD = append(p.byFD, make([]*parked, missing)...)
	}
	p.keys++
	c.key = p.keys
	p.byFD[c.fd] = c
	return p.ctl(unix.EPOLL_CTL_ADD, c, 0)
}

// awaitRoom listens for room in the socket besides. If there is some already, it
// is heard of at once.
func (p *peers) awaitRoom(c *parked) { _ = p.ctl(unix.EPOLL_CTL_MOD, c, unix.EPOLLOUT) }

func (p *peers) ctl(op int, c *parked, more uint32) error {
	return unix.EpollCtl(p.epoll, op, c.fd, &unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET | more, Fd: int32(c.fd), Pad: int32(c.key)})
}

// remove forgets a connection that is about to be closed. The kernel does so too.
func (p *peers) remove(c *parked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.fd < len(p.byFD) && p.byFD[c.fd] == c {
		p.byFD[c.fd] = nil
	}
}

func (p *peers) run() {
	defer close(p.ended)
	heard := make([]unix.EpollEvent, heardAtOnce)
	for {
		n, err := unix.EpollWait(p.epoll, heard, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, e := range heard[:max(n, 0)] {
			if int(e.Fd) == p.alarm {
				_ = unix.Close(p.alarm)
				_ = unix.Close(p.epoll)
				return
			}
			p.tell(e)
		}
	}
}

func (p *peers) tell(e unix.EpollEvent) {
	p.mu.Lock()
	c := p.byFD[e.Fd]
	known := c != nil && c.key == uint32(e.Pad)
	p.mu.Unlock()
	switch {
	case !known: // closed meanwhile
	case e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0:
		c.mark(markGone, nil)
	default:
		c.mark(markWritable, nil)
	}
}

// stop ends run.
func (p *peers) stop() { _, _ = unix.Write(p.alarm, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }
