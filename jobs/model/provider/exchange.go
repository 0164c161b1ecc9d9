package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/retry"
)

// exchange is one request and its answer as the transport saw them. The SDKs
// differ in what they keep of a failed one: headers, a status beside a body
// that is not the vendor's, how far an answer came. Here nothing is lost.
type exchange struct {
	sent   bool
	status int
	header http.Header
	at     time.Time // when the answer began
	body   []byte    // of an error, its beginning
	broke  error     // what ended the answer before its end
}

const (
	// maxAnswer is far more than an answer may hold; more is no answer.
	maxAnswer = 8 << 20
	// maxErrorBody is as much of an error's body as is looked at.
	maxErrorBody = 64 << 10
)

var errAnswerTooLong = errors.New("model: the answer is too long")

type exchangeKey struct{}

// begin makes the exchange of one call and the context its request carries.
func begin(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// watched tells the exchange in a request's context what happens to it.
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
	x.status, x.header, x.at = res.StatusCode, res.Header, time.Now()
	res.Body = &watchedBody{ReadCloser: res.Body, x: x}
	return res, nil
}

type watchedBody struct {
	io.ReadCloser
	x    *exchange
	read int
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.x.status >= 400 && len(b.x.body) < maxErrorBody {
		b.x.body = append(b.x.body, p[:min(n, maxErrorBody-len(b.x.body))]...)
	}
	if b.read += n; b.read > maxAnswer {
		err = errAnswerTooLong
	}
	if err != nil && err != io.EOF {
		b.x.broke = err
	}
	return n, err
}

// failure makes the *Error of a call that failed with err. An answer that came
// counts more than how the call ended, and the end of the context more than
// what the SDK made of it. Nothing of err's text or of the answer's is kept:
// both may hold the prompt, the output, the key and the address.
func (x *exchange) failure(ctx context.Context, d dialect, err error) *model.Error {
	var e *model.Error
	switch {
	case x.status >= 400:
		e = d.answered(x, x.status, d.read(x.body))
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
		e = &model.Error{Kind: retry.Internal, Status: x.status, Cause: errRedirected,
			Advice: "the address leads elsewhere: set TIDINGS_MODEL_BASE_URL to where the provider answers"}
	case errors.Is(x.broke, errAnswerTooLong):
		e = d.unusable(x, "too_long")
	case x.broke != nil:
		e = d.unusable(x, interrupted)
	default: // empty, HTML, broken: something in between spoke, or fell silent
		e = d.unusable(x, noAnswer)
	}
	e.RequestID = x.requestID(d)
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
	if x.header == nil {
		return ""
	}
	return code(x.header.Get(d.requestID))
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
