package events

import (
	"cmp"
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Read implements Log: one round trip per 500 topics, and another one for those
// whose place is not known.
func (l *RedisLog) Read(ctx context.Context, asks []Ask) ([]Answer, error) {
	answers := make([]Answer, len(asks))
	for from := 0; from < len(asks); from += batch {
		to := min(from+batch, len(asks))
		if err := l.readBatch(ctx, asks[from:to], answers[from:to]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func (l *RedisLog) readBatch(ctx context.Context, asks []Ask, answers []Answer) error {
	pipe := l.client.Pipeline()
	newer := make([]*redis.XMessageSliceCmd, len(asks))
	newest := make([]*redis.XMessageSliceCmd, len(asks))
	for i, a := range asks {
		key := a.Topic.Key("log")
		if first, ok := a.first(); ok {
			// The log is trimmed to MaxLog, so this reads to the end.
			newer[i] = pipe.XRangeN(ctx, key, entryID(first), "+", MaxLog+1)
		}
		if newer[i] == nil || a.How == Since {
			newest[i] = pipe.XRevRangeN(ctx, key, "+", "-", 1)
		}
	}
	if err := exec(ctx, pipe); err != nil {
		return err
	}
	var lost []int // whose place is beyond the log's end: what is the newest?
	pipe = l.client.Pipeline()
	for i, a := range asks {
		answers[i] = a.answer(entries(newer[i]), entries(newest[i]))
		if a.How == Resume && newer[i] != nil && a.Seq != 0 && answers[i].Err == nil && answers[i].Head.Seq == 0 {
			lost = append(lost, i)
			newest[i] = pipe.XRevRangeN(ctx, a.Topic.Key("log"), "+", "-", 1)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if err := exec(ctx, pipe); err != nil {
		return err
	}
	for _, i := range lost {
		answers[i] = Ask{How: Resume, Seq: -1}.answer(read{}, entries(newest[i]))
	}
	return nil
}

// exec runs a pipeline and fails when it was not answered as a whole. What Redis
// has refused of it is told by the commands.
func exec(ctx context.Context, pipe redis.Pipeliner) error {
	_, err := pipe.Exec(ctx)
	if _, refused := err.(redis.Error); err == nil || refused { //nolint:errorlint // Exec returns a command's error as it is
		return nil
	}
	return unavailable("read the log", err)
}

// first is the oldest place to be read for a; false: the newest will do. A place
// to resume from is read itself: it is known when it is still there.
func (a Ask) first() (int64, bool) {
	if a.How == Current || a.Seq < 0 || a.Seq > maxNumber {
		return 0, false
	}
	if a.How == Since {
		return a.Seq + 1, true
	}
	return a.Seq, true
}

// read is what a command has brought.
type read struct {
	entries []Transition
	err     error
}

func entries(cmd *redis.XMessageSliceCmd) read {
	if cmd == nil {
		return read{}
	}
	if cmd.Err() != nil {
		return read{err: unavailable("read the log", cmd.Err())}
	}
	parsed, err := parseEntries(cmd.Val())
	return read{parsed, err}
}

// answer judges what was read from a's first place on, and as the newest.
func (a Ask) answer(newer, newest read) Answer {
	if newer.err != nil || newest.err != nil {
		return Answer{Err: cmp.Or(newer.err, newest.err)}
	}
	all := newer.entries
	if len(all) == 0 {
		all = newest.entries
	}
	if len(all) == 0 {
		return Answer{Known: a.How == Current || a.How == Resume && a.Seq == 0}
	}
	from, ok := a.first()
	head := all[len(all)-1]
	switch {
	case a.How == Current:
		return Answer{Newer: all, Head: head, Known: true}
	case !ok:
	case a.How == Since && all[0].Prev < from: // else something in between is no longer there
		return Answer{Newer: newer.entries, Head: head, Known: true}
	case a.How == Resume && a.Seq == 0:
		return Answer{Newer: all, Head: head, Known: true}
	case a.How == Resume && all[0].Seq == a.Seq:
		return Answer{Newer: all[1:], Head: head, Known: true}
	}
	return Answer{Newer: all[len(all)-1:], Head: head}
}

func entryID(seq int64) string { return strconv.FormatInt(seq, 10) + "-0" }
