// Package provider reaches the models of Anthropic, OpenAI (and every server that
// speaks as OpenAI does) and Gemini, each through its vendor's SDK, one file a
// vendor. The SDKs' own retries are off. A failure is classified here, where the
// vendor's type is still known, and only the class leaves this package.
//
// The SDKs take longer to compile than everything else together. So they stand
// apart from package model, and the build tag nosdk leaves them out of a program
// that only tries Tidings with the built-in model.
package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidings/tidings/jobs/model"
)

// Access is how a provider is reached.
type Access struct {
	// Key authenticates. It may be empty where BaseURL is set: servers at home
	// often want none.
	Key string
	// BaseURL replaces the provider's own address: a proxy, a gateway, or
	// whatever speaks the same protocol.
	BaseURL string
	// ClearText lets the key travel by http:// to another machine. Without it that
	// is refused: everybody on the way could read it.
	ClearText bool
	// Output is how JSON is asked for; empty is OutputSchema.
	Output Output
	// Transport carries the requests; nil is one made for this provider.
	Transport http.RoundTripper
}

// Output is how a provider is asked for JSON. It is chosen once, by a setting:
// finding out by trying would cost a second request.
type Output string

// The ways, from the firmest to the one every model has.
const (
	OutputSchema Output = "json_schema" // the provider holds its model to the schema
	OutputObject Output = "json_object" // it holds it to JSON; the schema stands in the instructions
	OutputText   Output = "text"        // the instructions alone
)

// Open makes the provider of a dependency such as "openai/gpt-x". It opens no
// connection.
func Open(dependency string, a Access) (model.Provider, error) {
	provider, name, _ := strings.Cut(dependency, "/")
	if name == "" {
		return nil, fmt.Errorf("model: %q names no model", dependency)
	}
	if a.Output == "" {
		a.Output = OutputSchema
	}
	if a.Output != OutputSchema && a.Output != OutputObject && a.Output != OutputText {
		return nil, fmt.Errorf("model: %q is no way to ask for JSON: want %s, %s or %s", a.Output, OutputSchema, OutputObject, OutputText)
	}
	if err := checkBaseURL(a.BaseURL); err != nil {
		return nil, err
	}
	if a.Key != "" && !a.ClearText && readable(a.BaseURL) {
		return nil, errors.New("model: the key would be sent in clear text: use an https:// address in TIDINGS_MODEL_BASE_URL, " +
			"or set TIDINGS_MODEL_CLEAR_TEXT=true if nobody else can listen on the way")
	}
	if a.Key == "" && a.BaseURL == "" && KeyName(provider) != "" {
		return nil, fmt.Errorf("model: %s needs a key: set %s in the environment", provider, KeyName(provider))
	}
	return open(provider, name, a)
}

// KeyName is the variable of the environment that holds a provider's key, ""
// of a provider that is not known.
func KeyName(provider string) string {
	switch provider {
	case "anthropic":
		return "ANTHROPIC_API_KEY"
	case "openai":
		return "OPENAI_API_KEY"
	case "gemini":
		return "GEMINI_API_KEY"
	}
	return ""
}

// checkBaseURL refuses what no request could be sent to, and what would put a
// secret where it is shown.
func checkBaseURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("model: the base URL must be http:// or https:// and a host, such as http://127.0.0.1:11434/v1")
	case u.User != nil:
		return errors.New("model: the base URL holds a password: keys belong into the environment's variable for them")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("model: the base URL must end with its path")
	}
	return nil
}

// readable tells whether what is sent to an address leaves this machine in clear
// text.
func readable(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// system is the instructions, with the schema written out where the provider
// may not hold its model to it. Behind another address that may always be so:
// some servers take the format and leave it at that.
func (a Access) system(r model.Request) string {
	if a.Output == OutputSchema && a.BaseURL == "" {
		return r.System
	}
	return r.System + "\n\nYour answer must be one JSON object that satisfies this JSON Schema:\n" + compact(r.Schema)
}

func compact(schema json.RawMessage) string {
	b, err := json.Marshal(schema) // writes a RawMessage without its white space
	if err != nil {
		return string(schema)
	}
	return string(b)
}

// portable is the part of a JSON Schema that all providers' structured output
// knows: the shape. They refuse a request over a keyword they do not know, such
// as minLength; what such keywords say is checked when the answer is here, and
// the descriptions tell the model. Every object is closed, as they demand.
func portable(schema json.RawMessage) (map[string]any, error) {
	var s map[string]any
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	return shape(s), nil
}

func shape(s map[string]any) map[string]any {
	out := map[string]any{}
	for _, keyword := range []string{"type", "description", "enum", "required"} {
		if v, ok := s[keyword]; ok {
			out[keyword] = v
		}
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		shapes := map[string]any{}
		for name, p := range properties {
			if p, ok := p.(map[string]any); ok {
				shapes[name] = shape(p)
			}
		}
		out["properties"] = shapes
	}
	if items, ok := s["items"].(map[string]any); ok {
		out["items"] = shape(items)
	}
	if out["type"] == "object" {
		out["additionalProperties"] = false
	}
	return out
}
