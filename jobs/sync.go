package jobs

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
// known. Submits, retries and cancels say so in Accepted.Unreplicated.
type Sync struct {
	// Replicas is how many must have it [TIDINGS_WAIT_REPLICAS].
	Replicas int
	// Timeout is how long they may take [TIDINGS_WAIT_TIMEOUT]. Below the
	// client's read timeout, or the answer to the verb itself is lost.
	Timeout time.Duration
}

// waits tells whether a verb's answer is a promise. Reservations and renewals
// are not among them: what they lose costs a call or a lease, never a job.
func (s Sync) waits(verb string) bool {
	switch verb {
	case "admit", "submit", "retry", "cancel", "claim", "settle", "resolve":
		return s.Replicas > 0
	}
	return false
}

// exec runs a verb's script and tells whether its writes are as safe as Sync
// asks; true when it does not ask.
func (s *Store) exec(ctx context.Context, verb string, keys []string, argv ...any) (reply any, replicated bool, err error) {
	script := s.verbs[verb]
	if !s.Sync.waits(verb) {
		reply, err = script.Run(ctx, s.client, keys, argv...).Result()
		return reply, true, err
	}
	reply, replicated, err = s.wait(ctx, script, keys, argv)
	if err == nil && !replicated {
		s.Metrics.unreplicated(verb)
	}
	return reply, replicated, err
}

// wait runs a script and WAIT on one connection to the node that has the keys.
// Redis waits for all that it had written when it carried out the connection's
// last command, also if that command wrote nothing, as a repeated verb does. A
// client of a Cluster would send WAIT to any node.
func (s *Store) wait(ctx context.Context, script *redis.Script, keys []string, argv []any) (any, bool, error) {
	cluster, _ := s.client.(*redis.ClusterClient)
	for try := 0; ; try++ {
		node := s.client
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
			reply, err := script.Run(ctx, s.client, keys, argv...).Result()
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

func (s *Store) waitAt(ctx context.Context, node redis.Cmdable, run eval, keys []string, argv []any) (any, bool, error) {
	pipe := node.Pipeline()
	verb := run(ctx, pipe, keys, argv...)
	waited := redis.NewIntCmd(ctx, "wait", s.Sync.Replicas, ms(s.Sync.Timeout))
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
