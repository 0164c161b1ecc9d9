//go:build !nosdk

package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidings/tidings/jobs/retry"
)

// said is what an error's body says, whoever wrote it: gateways send the errors of
// one vendor through the form of another. It stays in this package.
type said struct {
	status int      // that a gateway put into the body, 0 if none
	types  []string // codes, types and reasons, the innermost first
	text   string   // its messages
	wait   time.Duration
}

// readSaid reads an error's body: JSON of whatever form, an event of a stream, or
// words. A page of HTML says nothing.
func readSaid(body []byte, now time.Time) said {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	if i := bytes.Index(body, []byte("data:")); i >= 0 && !bytes.HasPrefix(body, []byte("{")) && !bytes.HasPrefix(body, []byte("[")) {
		body, _, _ = bytes.Cut(bytes.TrimSpace(body[i+len("data:"):]), []byte("\n"))
	}
	r := reader{now: now}
	var v any
	switch {
	case json.Unmarshal(body, &v) == nil:
		r.value("message", v, 0)
	case !bytes.HasPrefix(body, []byte("<")):
		r.say(string(body))
	}
	r.text = strings.TrimSpace(r.words.String())
	if r.wait == 0 {
		r.wait = retry.WaitIn(r.text, now)
	}
	return r.said
}

// reader walks over an error's JSON.
type reader struct {
	said
	words strings.Builder
	now   time.Time
}

const (
	deepest   = 8    // levels of an error that are read
	mostWords = 4000 // bytes of its messages
)

func (r *reader) say(text string) {
	if r.words.Len() < mostWords && text != "" {
		fmt.Fprintf(&r.words, "%s ", text[:min(len(text), mostWords)])
	}
}

// value takes in a member of an error by its name.
func (r *reader) value(name string, v any, depth int) {
	if depth > deepest {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		r.object(v, depth)
	case []any:
		for _, one := range v {
			r.value(name, one, depth+1)
		}
	case string:
		r.string(name, v, depth)
	case float64:
		r.string(name, strconv.FormatFloat(v, 'f', -1, 64), depth)
	}
}

// object takes in what is inside of its members first: there stands what is most
// telling, such as Google's details.
func (r *reader) object(o map[string]any, depth int) {
	named := map[string]any{}
	for name, v := range o {
		named[strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))] = v
	}
	for _, inside := range []bool{true, false} {
		for _, name := range members() {
			v, ok := named[name]
			if _, isText := v.(string); ok && inside != (isText || isNumber(v)) {
				r.value(name, v, depth+1)
			}
		}
	}
}

func isNumber(v any) bool {
	_, ok := v.(float64)
	return ok
}

// members are the names that are read, in lower case without separators, the most
// telling first. What users sent is in none of them but the messages.
func members() []string {
	return []string{"error", "errors", "details", "detail", "innererror", "cause", "metadata", "headers", "raw", "baseresp", "violations", "quotaid",
		"code", "type", "reason", "reasons", "status", "statuscode", "errorcode", "flaggedinput", "param", "loc",
		"message", "msg", "statusmsg", "errormessage", "description", "errordescription", "title",
		"retrydelay", "retryafter", "retryafterseconds", "retryafterms", "retryaftermilliseconds", "resetsinseconds",
		"resetsat", "resetat", "xratelimitreset", "ratelimitreset"}
}

func (r *reader) string(name, text string, depth int) {
	switch name {
	case "code", "type", "reason", "status", "statuscode", "errorcode":
		n, err := strconv.Atoi(text)
		switch {
		case err == nil && 400 <= n && n <= 599:
			if r.status == 0 {
				r.status = n
			}
		case code(text) != "" && text != "error":
			r.types = append(r.types, text)
		default: // xAI's codes are sentences
			r.say(text)
		}
	case "quotaid":
		if strings.Contains(text, "PerDay") || strings.Contains(text, "PerMonth") {
			r.types = append(r.types, quotaOfTheDay)
		}
	case "flaggedinput":
		r.types = append(r.types, inputFlagged)
	case "retrydelay", "retryafter", "retryafterseconds", "resetsinseconds", "resetsat", "resetat", "xratelimitreset", "ratelimitreset":
		r.wait = max(r.wait, retry.ParseWait(text, r.now))
	case "retryafterms", "retryaftermilliseconds":
		r.wait = max(r.wait, retry.ParseWaitMS(text, r.now))
	default:
		var inner any
		if strings.HasPrefix(strings.TrimSpace(text), "{") && json.Unmarshal([]byte(text), &inner) == nil {
			r.value(name, inner, depth+1) // a gateway puts the provider's error into its own as text
			return
		}
		r.say(text)
	}
}
