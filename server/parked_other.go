//go:build !linux

package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// parking takes no connections over where there is no epoll.
type parking struct{}

func newParking(*slog.Logger, time.Duration, time.Duration) *parking { return nil }

func remembering(ctx context.Context, _ net.Conn) context.Context { return ctx }

func (*parking) fit(*http.Request) syscall.RawConn { return nil }

func (*parking) line(syscall.RawConn) line { return nil }

func (*parking) stop() {}
