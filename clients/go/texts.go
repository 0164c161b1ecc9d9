package tidings

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// fallbackFile holds the texts of the apps in every language, made from the
// server's own (see the contract server's command texts).
//
//go:embed fallback.json
var fallbackFile []byte

// Texts are the server's texts in the client's language, with those an app cannot
// do without built in: they can be shown before the first Load and without a
// network. Safe for concurrent use.
type Texts struct {
	client   *Client
	builtIn  map[string]string
	english  map[string]string
	language string // of builtIn

	mu       sync.Mutex
	fetched  map[string]string
	fetchedL string
	etag     string
}

// Texts returns the texts in the language of the client, English without one. Keep
// it: what it has fetched is kept by it.
func (c *Client) Texts() *Texts {
	var all map[string]map[string]string
	if err := json.Unmarshal(fallbackFile, &all); err != nil {
		panic(fmt.Sprintf("tidings: built-in texts: %v", err)) // a test reads the same file
	}
	t := &Texts{client: c, language: "en", english: all["en"]}
	base, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(c.language), "_", "-"), "-")
	if base == "no" || base == "nn" {
		base = "nb"
	}
	if _, ok := all[base]; ok {
		t.language = base
	}
	t.builtIn = all[t.language]
	return t
}

// Load fetches the texts, or learns that those it has are still the newest. When
// it fails, everything stays as it was.
func (t *Texts) Load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t.mu.Lock()
	etag := t.etag
	t.mu.Unlock()
	resp, err := t.client.do(ctx, request{method: http.MethodGet, path: "/api/v1/messages", header: map[string]string{
		"Accept": "application/json", "If-None-Match": etag,
	}})
	if err != nil {
		return err
	}
	defer discard(resp)
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil
	case http.StatusOK:
	default:
		return t.client.problem(resp)
	}
	var answer struct {
		Language string            `json:"language"`
		Messages map[string]string `json:"messages"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&answer); err != nil {
		return fmt.Errorf("tidings: the texts are not readable: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fetched, t.fetchedL, t.etag = answer.Messages, answer.Language, resp.Header.Get("ETag")
	return nil
}

// Get is the text of a key: the server's, else the built-in one of the language,
// else the English one, else the key itself. "" has no text.
func (t *Texts) Get(key string) string {
	t.mu.Lock()
	fetched := t.fetched
	t.mu.Unlock()
	for _, texts := range []map[string]string{fetched, t.builtIn, t.english} {
		if text := texts[key]; text != "" {
			return text
		}
	}
	return key
}

// Language is the language of the texts: what the server chose, before the first
// Load that of the built-in ones.
func (t *Texts) Language() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fetchedL != "" {
		return t.fetchedL
	}
	return t.language
}
