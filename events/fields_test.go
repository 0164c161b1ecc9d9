package events_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/events"
)

// fill sets every field of a Transition to something that is not zero, so that
// a field added later cannot be forgotten in the codec.
func fill(t *testing.T) events.Transition {
	var full events.Transition
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(time.UnixMilli(1775563260000 + int64(i)).UTC()))
		case bool:
			f.SetBool(true)
		case int, int64:
			f.SetInt(int64(1000 - i))
		default:
			if f.Kind() != reflect.String {
				t.Fatalf("%s: the codec's test does not know its type", v.Type().Field(i).Name)
			}
			f.SetString("v" + fmt.Sprint(i))
		}
	}
	full.Status = events.Retrying
	return full
}

func TestFieldsAndParseTransitionAreInverse(t *testing.T) {
	full := fill(t)
	stored := full.Fields()
	if want := 2 * reflect.TypeFor[events.Transition]().NumField(); len(stored) != want {
		t.Errorf("got %d names and values, want %d: is a field missing in fields()?", len(stored), want)
	}
	got, err := events.ParseTransition(table(stored))
	if err != nil || got != full {
		t.Errorf("got\n%+v (%v), want\n%+v", got, err, full)
	}
	if got := (events.Transition{}).Fields(); len(got) != 0 {
		t.Errorf("nothing set: got %v", got)
	}
}

func TestParseTransitionRefuses(t *testing.T) {
	good := table(fill(t).Fields())
	for name, bad := range map[string][]string{
		"seq":       {"", "0", "-1", "+5", "05", "1.5", "1e3", "x", "9007199254740992", "99999999999999999999"},
		"prev":      {"-1", "1000", "2000"},
		"at":        {"", "x"},
		"status":    {"", "idle", "queuedd", "Queued"},
		"job":       {""},
		"can_retry": {"true", "2"},
		"call":      {"9007199254740992"},
	} {
		for _, v := range bad {
			stored := table(nil)
			for n, g := range good {
				stored[n] = g
			}
			stored[name] = v
			if got, err := events.ParseTransition(stored); err == nil {
				t.Errorf("%s=%q: got %+v, want an error", name, v, got)
			}
		}
	}
	good["from_a_newer_version"] = "x"
	if _, err := events.ParseTransition(good); err != nil {
		t.Errorf("an unknown name: %v, want it left alone", err)
	}
}

func table(pairs []string) map[string]string {
	m := make(map[string]string)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func FuzzParseTransition(f *testing.F) {
	f.Add("seq 5 prev 4 at 5 status queued job j1 attempt 1 can_retry 1 next_retry 9007199254740991")
	f.Add("seq 05 at 5 status queued job j1")
	f.Add("status")
	f.Fuzz(func(t *testing.T, line string) {
		first, err := events.ParseTransition(table(strings.Split(line, " ")))
		if err != nil {
			return
		}
		if first.Seq <= first.Prev || first.Seq >= 1<<53 || first.JobID == "" {
			t.Errorf("accepted %+v", first)
		}
		second, err := events.ParseTransition(table(first.Fields()))
		if err != nil || second != first {
			t.Errorf("read\n%+v, wrote and read\n%+v (%v)", first, second, err)
		}
	})
}

func FuzzParseTopic(f *testing.F) {
	f.Add(events.NewTopic("anna", "abc-123", "summary").String())
	f.Add("////")
	f.Add(strings.Repeat("é", 16) + "/{x}/y")
	f.Fuzz(func(t *testing.T, s string) {
		topic, err := events.ParseTopic(s)
		if err != nil {
			return
		}
		if topic.String() != s {
			t.Errorf("%q was read as %+v, which is %q", s, topic, topic.String())
		}
		key := topic.Key("log")
		if strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 || strings.ContainsAny(key, " \r\n\x00") {
			t.Errorf("%q makes the key %q", s, key)
		}
	})
}

func TestTopics(t *testing.T) {
	anna, berta := events.NewTopic("anna", "s", "summary"), events.NewTopic("berta", "s", "summary")
	if anna == berta || strings.Contains(anna.String(), "anna") {
		t.Errorf("got %v and %v, want owners told apart and not shown", anna, berta)
	}
	keys := []string{anna.Key("log"), anna.Key("live"), anna.Key("job")}
	for _, key := range keys {
		if tag := key[strings.Index(key, "{"):strings.Index(key, "}")]; tag != "{"+anna.String() {
			t.Errorf("%q has the hash tag %q, want the topic", key, tag)
		}
	}
	if slices.Sort(keys); len(slices.Compact(keys)) != 3 {
		t.Error("two kinds of key are one")
	}
	got, err := events.ParseTopic(anna.String())
	if err != nil || got != anna {
		t.Errorf("got %v, %v, want %v", got, err, anna)
	}
	for _, bad := range []string{"", "a/b/c", anna.Owner + "/s", anna.Owner + "//summary", anna.Owner + "/s/",
		anna.Owner + "/s/summary/x", strings.ToUpper(anna.String()), anna.Owner + "/s p/summary",
		anna.Owner + "/{s}/summary", anna.Owner + "/" + strings.Repeat("x", 129) + "/summary"} {
		if got, err := events.ParseTopic(bad); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, got)
		}
	}
}
