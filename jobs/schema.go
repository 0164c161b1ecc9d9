package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas hold each workload's compiled output schema.
type schemas map[string]*jsonschema.Schema

func compileSchemas() (schemas, error) {
	out := schemas{}
	for _, w := range Workloads() {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Schema))
		if err != nil {
			return nil, fmt.Errorf("jobs: schema of %s: %w", w.Name, err)
		}
		c := jsonschema.NewCompiler()
		name := w.Name + ".json"
		if err := c.AddResource(name, doc); err != nil {
			return nil, fmt.Errorf("jobs: schema of %s: %w", w.Name, err)
		}
		if out[w.Name], err = c.Compile(name); err != nil {
			return nil, fmt.Errorf("jobs: schema of %s: %w", w.Name, err)
		}
	}
	return out, nil
}

// check refuses output that does not satisfy the workload's schema, and JSON that
// two readers may read differently: a name given twice, half of a surrogate pair,
// a number beyond a float64. The error does not repeat the output. Whatever the
// validator panics at is refused as well: it must not cost another call.
func (s schemas) check(workload string, content json.RawMessage) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("jobs: the output cannot be checked against the workload's schema")
		}
	}()
	if !jsontext.Value(content).IsValid() {
		return errors.New("jobs: the output is not JSON, has a name twice, or text that is not Unicode")
	}
	// Not the validator's own decoder: it keeps a number's text, and 1e2000000 as
	// an exact fraction is a million digits long.
	var doc any
	if err := json.Unmarshal(content, &doc); err != nil {
		return errors.New("jobs: the output has a number beyond what a float64 holds")
	}
	if err := s[workload].Validate(doc); err != nil {
		return errors.New("jobs: the output does not satisfy the workload's schema")
	}
	return nil
}
