package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

func TestAsError(t *testing.T) {
	live := context.Background()
	cancelled, cancel := context.WithCancel(live)
	cancel()
	expired, cancel := context.WithDeadline(live, time.Now().Add(-time.Second))
	defer cancel()

	answer := &model.Error{Kind: retry.Unavailable, Status: 503, RequestID: "r"}
	network := &model.Error{Kind: retry.Network, Type: "reset", RequestID: "r"}
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want retry.Kind
	}{
		{"kept", live, network, retry.Network},
		{"kept in a chain", live, fmt.Errorf("adapter: %w", answer), retry.Unavailable},
		{"our time limit", expired, errors.New("aborted"), retry.Timeout},
		{"our time limit, told as a network error", expired, network, retry.Timeout},
		{"cancelled", cancelled, errors.New("aborted"), retry.Cancelled},
		{"cancelled, told as a network error", cancelled, network, retry.Cancelled},
		{"an answer that came first", cancelled, answer, retry.Unavailable},

		{"somebody's time limit", live, fmt.Errorf("x: %w", context.DeadlineExceeded), retry.Timeout},
		{"socket's time limit", live, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, retry.Timeout},
		{"connection refused", live, &url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, retry.Network},
		{"connection closed", live, io.ErrUnexpectedEOF, retry.Network},
		{"somebody's cancellation", live, context.Canceled, retry.Network},
		{"I-79 text", live, errors.New("Overloaded"), retry.Overloaded},
		{"text timeout", live, errors.New("gateway timeout"), retry.Timeout},
		{"S1-04 text with a status", live, errors.New("401 Unauthorized: rate limit"), retry.Auth},
		{"S3-20 programming error", live, errors.New("nil map"), retry.Internal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := model.AsError(tt.ctx, tt.err)
			if got == nil || got.Kind != tt.want {
				t.Fatalf("got %v, want %s", got, tt.want)
			}
			if !errors.Is(got, tt.err) && !errors.Is(tt.err, error(got)) {
				t.Error("the cause is lost")
			}
			if got != network && tt.err == error(network) && got.RequestID != "r" {
				t.Error("the request id is lost")
			}
		})
	}
	if got := model.AsError(live, nil); got != nil {
		t.Errorf("nil became %v", got)
	}
	if got := model.AsError(live, (*model.Error)(nil)); got == nil || got.Kind != retry.Internal {
		t.Errorf("a nil *Error in an error became %v, want an internal error", got)
	}
}

// S3-26: the text of an error is made of codes and numbers.
func TestErrorTextHidesTheCause(t *testing.T) {
	e := model.AsError(context.Background(), errors.New("key sk-123 with prompt: Dear diary, timeout"))
	for _, text := range []string{e.Error(), fmt.Sprintf("%+v", e), (&model.Exhausted{Calls: 3, Last: e}).Error()} {
		if strings.Contains(text, "sk-123") || strings.Contains(text, "diary") {
			t.Errorf("text is %q", text)
		}
	}
	tests := map[string]*model.Error{
		"model: timeout":                                   {Kind: retry.Timeout},
		"model: overloaded (status 529)":                   {Kind: retry.Overloaded, Status: 529},
		"model: quota (status 429, insufficient), wait 2s": {Kind: retry.Quota, Status: 429, Type: "insufficient", RetryAfter: 2 * time.Second},
	}
	for want, e := range tests {
		if e.Error() != want {
			t.Errorf("text is %q, want %q", e, want)
		}
	}
	if got := (&model.NoTime{Left: 1500 * time.Microsecond}).Error(); got != "model: no call made with 2ms left" {
		t.Errorf("text is %q", got)
	}
}
