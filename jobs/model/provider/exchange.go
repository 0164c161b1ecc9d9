//go:build !nosdk

package provider

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// exchange is one request and its answer as the transport saw them. The SDKs write
// the request; the answer is read here, because they take only what their own
// vendor sends, and what arrives was often sent by somebody else.
type exchange struct {
	sent   bool
	status int
	header http.Header
	at     time.Time // when the answer began
	body   []byte    // of an error, its beginning
	broke  error     // what ended the answer before its end
	answer answer    // of a success
	asked  model.Request
	bound  sentWith
}

const (
	// maxAnswer is far more than an answer may hold; more is no answer.
	maxAnswer = 8 << 20
	// maxErrorBody is as much of an error's body as is looked at.
	maxErrorBody = 64 << 10
)

var errAnswerTooLong = errors.New("model: the answer is too long")

// client is an HTTP client whose every request and answer an exchange sees.
func (a Access) client() *http.Client {
	next := a.Transport
	if next == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64
		// A connection that died in silence would swallow call after call until
		// each one's time limit; a ping finds it.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second}
		next = t
	}
	return &http.Client{
		Transport: watched{next},
		// Following a redirect is a second request, and takes headers such as
		// x-api-key along to wherever it leads.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type exchangeKey struct{}

// begin makes the exchange of one call and the context its request carries. fold
// reads one object of the vendor's answer, the whole or a piece of it.
func begin(ctx context.Context, r model.Request, fold func(json.RawMessage, *answer)) (context.Context, *exchange) {
	x := &exchange{asked: r, answer: answer{fold: fold}}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// watched reads the answer to a request into the exchange in its context, and
// gives the SDK an empty one in its place.
type watched struct{ next http.RoundTripper }

func (w watched) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		x = &exchange{}
	}
	x.sent = true
	res, err := w.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() // also of a stream that is left early (S3-34)
	x.status, x.header, x.at = res.StatusCode, res.Header, time.Now()
	if x.succeeded() {
		x.broke = x.answer.read(res.Body)
	} else {
		x.body, _ = io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // the status says it without the rest
	}
	return &http.Response{StatusCode: res.StatusCode, Proto: res.Proto, ProtoMajor: res.ProtoMajor, ProtoMinor: res.ProtoMinor,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2, Request: req}, nil
}

func (x *exchange) succeeded() bool { return 200 <= x.status && x.status <= 299 }

// conclude is what came of a call that the SDK says failed with err, or nil. An
// answer that came counts more than what the SDK made of it.
func (x *exchange) conclude(ctx context.Context, d dialect, asked string, err error) (model.Response, error) {
	a := &x.answer
	r := model.Response{Model: code(a.model), Usage: a.usage, RequestID: x.requestID(d)}
	if r.Model == "" {
		r.Model = asked
	}
	var e *model.Error
	switch {
	case !x.succeeded():
		e = x.failure(ctx, d, err)
	case a.fault != nil:
		e = d.inside(x, readSaid(a.fault, x.clock()))
		if a.begun && e.Kind.Queued() { // something was written, and paid for
			e.Kind, e.RetryAfter = retry.StreamInterrupted, 0
		}
	case a.done:
		r.Content, e = d.judge(x)
	case x.broke != nil:
		e = x.failure(ctx, d, x.broke)
	case a.opened && a.stream && a.stopped == "": // it just ended, or an event cannot be read
		e = d.unusable(x, ours(interrupted))
	case !a.opened:
		e = d.inside(x, readSaid(a.last, x.clock()))
	default:
		r.Content, e = d.judge(x)
	}
	if e != nil {
		e.Usage, e.RequestID = a.usage, r.RequestID
		return r, e
	}
	return r, nil
}

// failure makes the *Error of a call that failed with err. An answer that came
// counts more than how the call ended, and the end of the context more than
// what the SDK made of it. Nothing of err's text or of the answer's is kept:
// both may hold the prompt, the output, the key and the address.
func (x *exchange) failure(ctx context.Context, d dialect, err error) *model.Error {
	var e *model.Error
	switch {
	case x.status >= 400:
		e = d.answered(x, x.status, readSaid(x.body, x.clock()))
	case ctx.Err() != nil:
		e = model.AsError(ctx, plain(err))
	case !x.sent: // the SDK could not even write the request
		e = &model.Error{Kind: retry.Internal, Cause: errNotSent}
	case x.status == 0:
		// Names that do not resolve, connections refused or reset, certificates:
		// whatever it was, nobody answered.
		if e = model.AsError(ctx, plain(err)); e.Kind != retry.Timeout {
			e.Kind = retry.Network
		}
	case x.status >= 300:
		e = &model.Error{Kind: retry.Misconfigured, Status: x.status, Cause: errRedirected,
			Advice: "the address leads elsewhere: set TIDINGS_MODEL_BASE_URL to where the provider answers"}
	case errors.Is(x.broke, errAnswerTooLong):
		e = d.unusable(x, ours(tooLong))
	default:
		e = d.unusable(x, ours(interrupted))
	}
	return e
}

var (
	errNotSent    = errors.New("model: the request could not be written")
	errRedirected = errors.New("model: the answer is a redirect")
)

// plain is the error without the address that net/http puts around it.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func (x *exchange) requestID(d dialect) string {
	for _, name := range []string{d.requestID, "x-request-id", "request-id", "cf-ray"} {
		if id := code(x.header.Get(name)); id != "" {
			return id
		}
	}
	return ""
}

// clock is the time that times in the answer's headers are counted from: the
// sender's own, if it tells.
func (x *exchange) clock() time.Time {
	if t, err := http.ParseTime(x.header.Get("Date")); err == nil {
		return t
	}
	return x.at
}

// code lets a name or an id pass that a provider gave, and nothing that could
// be a sentence.
func code(s string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-"
	if len(s) > 128 || strings.Trim(s, letters) != "" {
		return ""
	}
	return s
}
