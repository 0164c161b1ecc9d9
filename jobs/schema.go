package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

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

// check refuses output that does not satisfy the workload's schema. The error
// does not repeat the output.
func (s schemas) check(workload string, content json.RawMessage) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return errors.New("jobs: the output is not JSON")
	}
	if err := s[workload].Validate(doc); err != nil {
		return errors.New("jobs: the output does not satisfy the workload's schema")
	}
	return nil
}
