package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// testbed is everything that one row stands in: a Redis, a stand-in and a fleet of
// its own, so that no row can see another.
type testbed struct {
	row     string
	set     settings
	seed    uint64
	store   *store
	standin *standin
	line    *wire // between the workers and Redis
	fleet   *fleet
	client  *client
	began   time.Time // by Redis's clock
}

// build starts a testbed with that many workers.
func (r *runner) build(ctx context.Context, row string, set settings, workers int) (h *testbed, err error) {
	h = &testbed{row: row, set: set, seed: r.Seed}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.store, err = startStore(ctx, r.RedisServer, r.Embedded); err != nil {
		return h, err
	}
	r.note(func(r *Report) { r.Versions["Redis"] = h.store.what })
	if h.standin, err = newStandin(); err != nil {
		return h, err
	}
	if h.line, err = newWire(h.store.addr); err != nil {
		return h, err
	}
	dir, err := os.MkdirTemp("", "tidings-drill-")
	if err != nil {
		return h, err
	}
	h.fleet = &fleet{program: r.Program, dir: dir}
	prices := filepath.Join(dir, "prices.json")
	list, err := json.Marshal(map[string]any{"version": "drill", "prices": []any{
		map[string]any{"dependency": standinModel, "input": priceIn, "output": priceOut}}})
	if err != nil {
		return h, err
	}
	if err = os.WriteFile(prices, list, 0o600); err != nil {
		return h, err
	}
	h.fleet.env = append(set.env(), "TIDINGS_MODEL="+standinModel, "TIDINGS_MODEL_BASE_URL="+h.standin.url, "TIDINGS_PRICES="+prices)
	r.note(func(r *Report) { r.Settings[row] = append(r.Settings[row], strings.Join(set.env(), " ")) })
	server, err := h.fleet.start(ctx, "serve", h.store.addr)
	if err != nil {
		return h, err
	}
	h.client = newClient(server.api)
	if err = h.fleet.startWorkers(ctx, workers, h.line.addr); err != nil {
		return h, err
	}
	if h.began, err = h.store.now(ctx); err != nil {
		return h, err
	}
	r.begun(row, workers, h.store.what)
	return h, nil
}

// close ends everything, the processes first.
func (h *testbed) close() {
	if h.fleet != nil {
		h.fleet.close()
	}
	if h.client != nil {
		h.client.close()
	}
	if h.line != nil {
		h.line.close()
	}
	if h.standin != nil {
		h.standin.close()
	}
	if h.store != nil {
		h.store.close()
	}
}

// ops makes operations of the row, numbered from first.
func (h *testbed) ops(first, n int) []*op {
	all := make([]*op, n)
	for i := range all {
		all[i] = &op{ID: numbered(h.row, first+i)}
	}
	return all
}

// seen closes the row's file: how everything stands, and what arrived.
func (h *testbed) seen(ctx context.Context, ops []*op) (evidence, error) {
	if err := h.fleet.fallen(); err != nil {
		return evidence{}, err
	}
	if err := h.client.look(ctx, ops); err != nil {
		return evidence{}, err
	}
	now, err := h.store.now(ctx)
	if err != nil {
		return evidence{}, err
	}
	e := evidence{row: h.row, set: h.set, ops: ops, calls: h.standin.record(), passed: now.Sub(h.began)}
	for _, c := range e.calls {
		if c.Op == "" {
			return e, fmt.Errorf("the stand-in received a call of no operation")
		}
	}
	return e, nil
}
