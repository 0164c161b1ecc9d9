package tidings_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	tidings "github.com/tidings/tidings/clients/go"
)

func TestNewClientRefusesWhatCannotWork(t *testing.T) {
	for _, url := range []string{"", "api.test", "127.0.0.1:8080", "//api.test", "ftp://api.test", "https://", "http://a b", "https://a.test/?b=c", "https://a.test#d"} {
		if _, err := tidings.NewClient(url); err == nil || !strings.Contains(err.Error(), "write for example https://") {
			t.Errorf("base URL %q: %v", url, err)
		}
	}
	_, err := tidings.NewClient("https://api.test", tidings.WithHTTPClient(&http.Client{Timeout: time.Minute}))
	if err == nil {
		t.Error("an http.Client that cuts every stream is accepted")
	}
}

func TestAnErrorSaysForDevelopersWhatItSaysForPeople(t *testing.T) {
	err := &tidings.HTTPError{Status: 400, Code: "invalid_session_id", Detail: "1 to 128 characters."}
	if got, want := err.Error(), "tidings: the server answered 400 invalid_session_id: 1 to 128 characters."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBuiltInTexts(t *testing.T) {
	keys := []string{
		tidings.KeyBusyRetrying, tidings.KeyChecking, tidings.KeyRetryButton, tidings.KeySeeLater,
	}
	for _, workload := range []string{"summary", "guidance", "classification"} {
		keys = append(keys, tidings.CompilingKey(workload), tidings.TakingLongerKey(workload), tidings.ErrorKey(workload))
	}
	english := texts(t, "en")
	for _, lang := range strings.Fields("ar da de en es fi fr it ja ko nb nl pl pt sv zh") {
		got := texts(t, lang)
		if got.Language() != lang {
			t.Errorf("%s: language %s", lang, got.Language())
		}
		for _, key := range keys {
			text := got.Get(key)
			if text == key || lang != "en" && text == english.Get(key) {
				t.Errorf("%s: %s is %q", lang, key, text)
			}
		}
	}
	for tag, want := range map[string]string{"pt-BR": "pt", "zh_Hant_TW": "zh", "no": "nb", "nn-NO": "nb", "DE": "de", "xx": "en", "": "en"} {
		if got := texts(t, tag).Language(); got != want {
			t.Errorf("%q: language %s, want %s", tag, got, want)
		}
	}
	if got := english.Get("no_such_key"); got != "no_such_key" {
		t.Errorf("an unknown key is %q", got)
	}
}

func texts(t *testing.T, lang string) *tidings.Texts {
	t.Helper()
	client, err := tidings.NewClient("https://api.test", tidings.WithLanguage(lang))
	if err != nil {
		t.Fatal(err)
	}
	return client.Texts()
}

func TestAParserStopsAtItsLimit(t *testing.T) {
	tests := map[string]string{
		"line":  "data: 123456789012",
		"block": "data: 12345678\ndata: 12345678\n",
	}
	for name, input := range tests {
		p := tidings.NewParser("")
		p.Limit = 16
		if err := p.Feed([]byte(input)); !errors.Is(err, tidings.ErrTooLong) {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Feed([]byte("\n")); !errors.Is(err, tidings.ErrTooLong) {
			t.Errorf("%s: goes on with %v", name, err)
		}
	}
}

// However the network cuts a stream, it says the same.
func FuzzParserChunks(f *testing.F) {
	f.Add([]byte("\xEF\xBB\xBFid: 1\r\nevent: x\rdata: \xe2\x82\n\n\ndata\r\r\nretry: 20\n"), uint8(3))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		whole, wholeID := parse(stream, len(stream)+1)
		pieces, piecesID := parse(stream, int(size)+1)
		if !slices.Equal(whole, pieces) || wholeID != piecesID {
			t.Errorf("whole %q (%q), in pieces %q (%q)", whole, wholeID, pieces, piecesID)
		}
	})
}

func parse(stream []byte, size int) (got []tidings.Message, id string) {
	p := tidings.NewParser("")
	p.OnMessage = func(m tidings.Message) { got = append(got, m) }
	for chunk := range slices.Chunk(stream, size) {
		if p.Feed(chunk) != nil {
			break
		}
	}
	return got, p.LastEventID()
}
