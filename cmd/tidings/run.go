package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// patience is how long a start waits for Redis before it goes on without:
	// the process heals by itself when Redis comes.
	patience = 5 * time.Second
	// settling is what a cancelled call gets to hand its job back.
	settling = 5 * time.Second
)

// runService runs the parts of a mode until ctx ends, then takes them down:
// not ready, no new claims, streams closed over the drain window while running
// calls end, jobs whose calls do not end in time handed back.
func runService(ctx context.Context, mode string, s *settings, stdout, stderr io.Writer) (err error) {
	p, err := build(mode, s, stderr)
	if err != nil {
		return err
	}
	defer p.shut()
	boundMemory(p.log)
	api, ops, err := p.listen(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	// What other parts stand on ends after them, with base.
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	var standing sync.WaitGroup
	defer standing.Wait()
	defer end()
	standing.Go(func() {
		if err := p.hub.Run(base); err != nil {
			p.log.Error("the live connection has ended", "error", err)
			stop()
		}
	})
	standing.Go(func() { p.rescuer.Run(base) })
	standing.Go(func() { p.measures.Run(base) })
	if p.serves() {
		standing.Go(func() { p.outside.Listen(base) })
	}

	if p.works() {
		standing.Go(func() { p.worker.Listen(base) })
		if err := p.queue.Start(p.worker.Attempt); err != nil {
			return errors.Join(err, shutPorts(api, ops))
		}
	}
	if p.dispatchers != nil {
		// They hand back what they look after as soon as ctx ends.
		if err := p.dispatchers.Start(p.outside.Dispatcher(ctx, p.hub)); err != nil {
			return errors.Join(err, shutPorts(api, ops))
		}
	}
	p.announce(ctx, api, ops, stdout)

	var leaving sync.WaitGroup
	if p.works() {
		leaving.Go(func() {
			<-ctx.Done()
			p.stopWorking(base)
		})
	}
	err = p.server.Serve(ctx, api, ops)
	stop() // a listener that failed takes the workers down too
	leaving.Wait()
	p.log.Info("stopped")
	return err
}

// boundMemory lets Go collect earlier when the memory that the container may use
// runs short. GOMEMLIMIT, if it is set, stays as it is.
func boundMemory(log *slog.Logger) {
	limit, err := memlimit.Set()
	log.Debug("memory limit", "bytes", limit, "error", err) // an error: no cgroups here
}

// listen opens the ports. A mode without API gets a nil one.
func (p *parts) listen(ctx context.Context) (api, ops net.Listener, err error) {
	var c net.ListenConfig
	if p.serves() {
		if api, err = c.Listen(ctx, "tcp", p.s.Listen); err != nil {
			return nil, nil, fmt.Errorf("TIDINGS_LISTEN: %w", err)
		}
	}
	if ops, err = c.Listen(ctx, "tcp", p.s.OpsListen); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("TIDINGS_OPS_LISTEN: %w", err), shutPorts(api))
	}
	return api, ops, nil
}

func shutPorts(all ...net.Listener) (err error) {
	for _, l := range all {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// stopWorking claims nothing more, gives running calls their time, and hands
// back the jobs of those that need longer.
func (p *parts) stopWorking(base context.Context) {
	p.queue.Drain()
	if p.dispatchers != nil {
		p.dispatchers.Stop()
	}
	ctx, cancel := context.WithTimeout(base, p.s.retry.CallDrain+settling)
	defer cancel()
	p.worker.Drain(ctx, p.s.retry.CallDrain)
	p.queue.Stop()
}

// announce says that the process is ready and where, one key=value each, after
// what its settings add up to.
func (p *parts) announce(ctx context.Context, api, ops net.Listener, stdout io.Writer) {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.hub.Probe(wait); err != nil && ctx.Err() == nil {
		p.log.Warn("Redis does not answer yet; going on without it until it does", "error", err)
	}
	if warning := p.evictionWarning(wait); warning != "" {
		p.log.Warn(warning)
	}
	worst := p.s.retry.Worst()
	p.log.Info("at worst, one job", "calls", worst.Calls, "waits", worst.Waits.String(), "seconds", worst.Seconds(false),
		"seconds_if_long", worst.Seconds(true), "cost", worstCost(p.s.price, p.s.Model, worst.Calls))
	p.log.Info("the gate of each model", gateAttrs(p.s.gate)...)
	where := "given"
	if p.s.redis == nil {
		where = "embedded"
	}
	line := fmt.Sprintf("ready mode=%s ops=http://%s redis=%s model=%s", p.mode, ops.Addr(), where, p.s.Model)
	if api != nil {
		line += " api=http://" + api.Addr().String()
		if a, ok := api.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && p.s.Auth == "off" {
			p.log.Warn("everybody who reaches the API is the same owner: TIDINGS_AUTH is off", "listen", a.String())
		}
	}
	fmt.Fprintln(stdout, line)
	if p.mode == "dev" {
		greet(stdout, "http://"+api.Addr().String(), "http://"+ops.Addr().String(), p.s.redis == nil)
	}
}

// evictionWarning is empty for the embedded Redis, which evicts nothing.
func (p *parts) evictionWarning(ctx context.Context) string {
	if p.s.redis == nil {
		return ""
	}
	return evictionWarning(ctx, p.client)
}

// greet gives whoever tries it something to paste.
func greet(w io.Writer, api, ops string, embedded bool) {
	fmt.Fprintf(w, "\nOpen %s/ in a browser to see a summary come, and to make its model fail.\n", api)
	if embedded {
		fmt.Fprintln(w, "Redis is in this process: nothing survives a restart.")
	}
	fmt.Fprintf(w, `
Or ask for a summary here, then watch it come:

  curl -s -X POST %[1]s/api/v1/sessions/demo/summary -H 'Content-Type: application/json' \
    -d '{"input":{"text":"%[3]s"}}'; echo

  curl -sN %[1]s/api/v1/sessions/demo/summary/status

The document is at %[1]s/api/v1/sessions/demo/summary
Operators look at %[2]s/ops, and at the queues on %[2]s/queues

`, api, ops, sample)
}
