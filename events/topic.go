package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Topic names one session's workload of one owner: what has one status, one
// log and one live job at a time.
type Topic struct {
	// Owner is the hash of the owner, so that no key or list shows who it is.
	Owner    string
	Session  string
	Workload string
}

// NewTopic makes the topic of an owner's session. The owner is the token's
// subject, or "" for the one anonymous owner when authorization is off.
func NewTopic(owner, session, workload string) Topic {
	sum := sha256.Sum256([]byte(owner))
	return Topic{Owner: hex.EncodeToString(sum[:16]), Session: session, Workload: workload}
}

// ParseTopic reads what String wrote of a topic with a session id as the
// contract has it. Anything else is refused: it would break keys.
func ParseTopic(s string) (Topic, error) {
	p := strings.Split(s, "/")
	if len(p) != 3 || len(p[0]) != 32 || !only(p[0], "0123456789abcdef") || !isName(p[1]) || !isName(p[2]) {
		return Topic{}, fmt.Errorf("events: %q is not owner/session/workload", s)
	}
	return Topic{Owner: p[0], Session: p[1], Workload: p[2]}, nil
}

// isName reports whether s is 1 to 128 of A-Z a-z 0-9 . _ : -
func isName(s string) bool {
	return s != "" && len(s) <= 128 &&
		only(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")
}

func only(s, alphabet string) bool { return strings.Trim(s, alphabet) == "" }

// String is the form used in keys, queue payloads and the index of open jobs.
func (t Topic) String() string { return t.Owner + "/" + t.Session + "/" + t.Workload }

// Key is the topic's key of one kind. All keys of a topic share a hash tag, so
// that one script may touch them all on a Redis Cluster too.
func (t Topic) Key(kind string) string { return "tidings:{" + t.String() + "}:" + kind }
