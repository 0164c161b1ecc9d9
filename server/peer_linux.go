package server

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout gives a connection up whose peer has not acknowledged what
// was sent for d. A write deadline does not find such a peer: heartbeats by
// the hundred fit into a socket that nobody reads.
func setUserTimeout(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	return errors.Join(err, set)
}
