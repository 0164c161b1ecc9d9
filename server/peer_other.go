//go:build !linux

package server

import (
	"net"
	"time"
)

// setUserTimeout does nothing here: vanished peers are found by TCP's own,
// slower, retransmission limit.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
