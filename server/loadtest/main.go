//go:build bench && linux

// Command loadtest is a server to be measured: the API of package server over the
// log in Redis, without workers, and with the heads compared so rarely that live
// copies without a log behind them pass. It prints its two addresses: the API's and
// the profiles'. A load generator of many streams belongs in front of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/locales"
	"github.com/tidings/tidings/server"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "")
	debug := flag.String("debug", "127.0.0.1:0", "")
	store := flag.String("redis", "127.0.0.1:6379", "")
	heads := flag.Duration("heads", time.Hour, "how often the heads are compared")
	served := flag.Bool("served", false, "every stream within its handler")
	flag.Parse()
	if err := run(*listen, *debug, *store, *heads, *served); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(listen, debug, store string, heads time.Duration, served bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	texts, err := locales.Load()
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: store, ContextTimeoutEnabled: true})
	defer client.Close()
	hub := events.NewHub(events.NewRedisLog(client, time.Hour), events.HubOptions{HeadsEvery: heads})
	go hub.Run(ctx)
	logs, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	s, err := server.New(server.Options{Jobs: noJobs{}, Hub: hub, Texts: texts, StreamLimit: 1_000_000, MaxAge: time.Hour,
		Logger: slog.New(slog.NewJSONHandler(logs, nil))})
	if err != nil {
		return err
	}
	api, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	ops, err := net.Listen("tcp", debug)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/goroutines", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, runtime.NumGoroutine()) })
	go http.Serve(ops, mux)
	if served {
		api = plain{api}
	}
	fmt.Println(api.Addr(), ops.Addr())
	return s.Serve(ctx, api, nil)
}

// plain hides what a connection is, so that none is taken over.
type plain struct{ net.Listener }

func (p plain) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{c}, nil
}

// noJobs has none: nothing is submitted.
type noJobs struct{ server.Jobs }

var _ server.Jobs = noJobs{(*jobs.Service)(nil)}
