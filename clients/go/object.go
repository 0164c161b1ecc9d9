package tidings

import (
	"encoding/json"
	"strconv"
	"time"
)

// maxSafeInteger is the largest integer every client can hold: 2^53 - 1.
const maxSafeInteger = 1<<53 - 1

// object is a JSON object whose fields are read one by one, each as if absent
// when it has another type than expected. Keys are exact, unlike with structs.
type object map[string]json.RawMessage

// readObject reads text as one JSON object; anything else is an empty one.
func readObject(text string) object {
	var o object
	if json.Unmarshal([]byte(text), &o) != nil {
		return nil
	}
	return o
}

func (o object) str(key string) (string, bool) {
	raw := o[key]
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func (o object) text(key string) string {
	s, _ := o.str(key)
	return s
}

// integer reads a whole number from lo to hi, written without fraction or exponent.
func (o object) integer(key string, lo, hi int64) (int64, bool) {
	n, err := strconv.ParseInt(string(o[key]), 10, 64)
	return n, err == nil && lo <= n && n <= hi
}

// count reads a number that is 0 when absent.
func (o object) count(key string) int {
	n, _ := o.integer(key, 0, maxRetry)
	return int(n)
}

func (o object) isTrue(key string) bool  { return string(o[key]) == "true" }
func (o object) isFalse(key string) bool { return string(o[key]) == "false" }

// time reads a time of RFC 3339 with a zone; the zero time when there is none.
func (o object) time(key string) time.Time {
	t, err := time.Parse(time.RFC3339, o.text(key))
	if err != nil {
		return time.Time{}
	}
	return t
}
