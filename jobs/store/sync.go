package store

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Sync lets the verbs that somebody relies on wait until replicas have what was
// written, so that a fail-over does not lose it. The zero value waits for
// nobody.
//
// Not met is not an error: the verb was carried out, and only its safety is not
// known.
type Sync struct {
	// Replicas is how many must have it [TIDINGS_WAIT_REPLICAS].
	Replicas int
	// Timeout is how long they may take [TIDINGS_WAIT_TIMEOUT]. Below the
	// client's read timeout, or the answer to the verb itself is lost.
	Timeout time.Duration
}

// Scripts runs scripts on one Redis, with the waits that Sync asks for.
type Scripts struct {
	Client redis.UniversalClient
	Sync   Sync
	// Unmet hears of verbs that were not replicated in time; may be nil.
	Unmet func(verb string)
}

// Run runs a verb's script and tells whether its writes are as safe as the verb
// promises and Sync asks; true when it does not ask.
func (s Scripts) Run(ctx context.Context, verb string, script *redis.Script, keys []string, argv ...any) (reply any, replicated bool, err error) {
	if s.Sync.Replicas == 0 || !Promise(verb) {
		reply, err = script.Run(ctx, s.Client, keys, argv...).Result()
		return reply, true, err
	}
	reply, replicated, err = s.Wait(ctx, script, keys, argv...)
	if err == nil && !replicated && s.Unmet != nil {
		s.Unmet(verb)
	}
	return reply, replicated, err
}

// Wait runs a script and WAIT on one connection to the node that has the keys.
// Redis waits for all that it had written when it carried out the connection's
// last command, also if that command wrote nothing, as a repeated verb does. A
// client of a Cluster would send WAIT to any node.
func (s Scripts) Wait(ctx context.Context, script *redis.Script, keys []string, argv ...any) (any, bool, error) {
	cluster, _ := s.Client.(*redis.ClusterClient)
	for try := 0; ; try++ {
		node := s.Client
		if cluster != nil {
			master, err := cluster.MasterForKey(ctx, keys[0])
			if err != nil {
				return nil, false, err
			}
			node = master
		}
		reply, replicated, err := s.waitAt(ctx, node, script.EvalSha, keys, argv)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			reply, replicated, err = s.waitAt(ctx, node, script.Eval, keys, argv)
		}
		if err == nil || cluster == nil || try > 0 || !elsewhere(err) {
			return reply, replicated, err
		}
		if _, ask := redis.IsAskError(err); ask { // the slot is on its way to another node
			reply, err := script.Run(ctx, s.Client, keys, argv...).Result()
			return reply, false, err
		}
		// What the client knows of the cluster is old. Asking for each master
		// makes it look again at once.
		_ = cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil })
	}
}

// elsewhere tells whether an error may mean that another node has the key now:
// all but a script's own complaint.
func elsewhere(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return true
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsReadOnlyError(err)
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, argv ...any) *redis.Cmd

func (s Scripts) waitAt(ctx context.Context, node redis.Cmdable, run eval, keys []string, argv []any) (any, bool, error) {
	pipe := node.Pipeline()
	verb := run(ctx, pipe, keys, argv...)
	waited := redis.NewIntCmd(ctx, "wait", s.Sync.Replicas, s.Sync.Timeout.Milliseconds())
	_ = pipe.Process(ctx, waited)
	_, _ = pipe.Exec(ctx) // each command has its own error
	reply, err := verb.Result()
	var refused redis.Error
	if err == nil && waited.Err() != nil && !errors.As(waited.Err(), &refused) {
		// The connection broke meanwhile, perhaps with its master: whether the
		// verb will be known is open.
		err = waited.Err()
	}
	if err != nil {
		return nil, false, err
	}
	return reply, waited.Val() >= int64(s.Sync.Replicas), nil
}
