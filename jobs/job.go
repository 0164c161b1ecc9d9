package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/tidings/tidings/events"
	"github.com/tidings/tidings/jobs/model"
)

// Input is the material of a job: exactly one of Text and Messages.
type Input struct {
	Text     string          `json:"text,omitempty"`
	Messages []model.Message `json:"messages,omitempty"`
}

// MaxInputBytes bounds a submit's body, and so its input.
const MaxInputBytes = 1 << 20

// MaxMessages bounds the turns of one conversation.
const MaxMessages = 10_000

// Validate refuses an input that no model could work on, naming the field.
func (in Input) Validate() error {
	switch {
	case in.Text != "" && len(in.Messages) > 0:
		return &Refusal{Code: CodeInvalidField, Field: "input", Why: "give text or messages, not both"}
	case len(in.Messages) > MaxMessages:
		return &Refusal{Code: CodeInvalidField, Field: "input.messages", Why: fmt.Sprintf("more than %d messages", MaxMessages)}
	case len(in.Messages) == 0:
		if blank(in.Text) {
			return &Refusal{Code: CodeInvalidField, Field: "input.text", Why: "empty or blank"}
		}
		return nil
	}
	said := false
	for i, m := range in.Messages {
		switch m.Role {
		case "user", "assistant", "system", "":
		default:
			return &Refusal{Code: CodeInvalidField, Field: fmt.Sprintf("input.messages[%d].role", i), Why: "not user, assistant or system"}
		}
		said = said || !blank(m.Content)
	}
	if !said {
		return &Refusal{Code: CodeInvalidField, Field: "input.messages", Why: "every message is empty or blank"}
	}
	return nil
}

// leastTokens is how many tokens the input has at least.
func (in Input) leastTokens() (n int64) {
	for _, m := range in.Material() {
		n += model.LeastTokens(m.Content)
	}
	return n
}

func blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsSpace(r) && !unseen(r)
	}) < 0
}

// Material is the input as messages, which is what models get.
func (in Input) Material() []model.Message {
	if len(in.Messages) > 0 {
		return in.Messages
	}
	return []model.Message{{Content: in.Text}}
}

// fingerprint identifies what was asked for: the input and the language.
func fingerprint(in Input, language string) string {
	b, err := json.Marshal(struct {
		Input    Input
		Language string
	}{in, language})
	if err != nil { // strings and slices of strings always encode
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Document is a finished version of a workload's output.
type Document struct {
	Version   int64           `json:"version"`
	JobID     string          `json:"job_id"`
	CreatedAt time.Time       `json:"created_at"`
	Model     string          `json:"model"`
	Language  string          `json:"language,omitempty"`
	Usage     model.Usage     `json:"usage"`
	Cost      *float64        `json:"cost_usd"`
	Content   json.RawMessage `json:"content"`
}

// Accepted is the answer to a submit or a manual retry.
type Accepted struct {
	JobID  string        `json:"job_id"`
	Status events.Status `json:"status"`
	// Live tells that nothing was started: the answer names the job that was
	// already there (a submit answers 200 then, not 202).
	Live bool `json:"-"`
	// Replayed tells that an Idempotency-Key repeated an earlier answer.
	Replayed bool `json:"-"`
	// Unreplicated tells that the replicas asked for did not confirm it in
	// time: a fail-over now may lose it (store.Sync).
	Unreplicated bool `json:"-"`
}

// Submit is one request for a new version of a document.
type Submit struct {
	Topic          events.Topic
	Input          Input
	Language       string // BCP 47; empty: the language of the material
	IdempotencyKey string // "" for none; at most 255 printable ASCII bytes
	Replace        bool   // cancel the live job with another input
	Simulate       []string
}
