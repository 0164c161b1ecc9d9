package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tidings/tidings/locales"
)

// textBook holds every language's texts as the answers that are sent: they
// never change while the process runs.
type textBook struct {
	pages   map[locales.Language]page
	locales page
}

type page struct {
	body []byte
	tag  string
	text map[string]string
}

func newTextBook(texts *locales.Catalog) (*textBook, error) {
	b := &textBook{pages: map[locales.Language]page{}}
	for _, info := range texts.Languages() {
		p, err := newPage(struct {
			Language locales.Language  `json:"language"`
			Messages map[string]string `json:"messages"`
		}{info.Tag, texts.Messages(info.Tag)})
		if err != nil {
			return nil, err
		}
		p.text = texts.Messages(info.Tag)
		b.pages[info.Tag] = p
	}
	var err error
	b.locales, err = newPage(struct {
		Default locales.Language `json:"default"`
		Locales []locales.Info   `json:"locales"`
	}{locales.Default, texts.Languages()})
	return b, err
}

func newPage(v any) (page, error) {
	body, err := encode(v)
	if err != nil {
		return page{}, err
	}
	sum := sha256.Sum256(body)
	return page{body: body, tag: hex.EncodeToString(sum[:8])}, nil
}

// messages answers with every text that needs no values.
func (s *Server) messages(c *gin.Context) {
	s.localized(c)
	s.page(c, s.texts.pages[callOf(c).lang])
}

// message answers with one text.
func (s *Server) message(c *gin.Context) {
	lang, key := callOf(c).lang, c.Param("key")
	all := s.texts.pages[lang]
	text, ok := all.text[key]
	if !ok {
		s.fail(c, &problem{code: codeNotFound})
		return
	}
	_, used := s.o.Texts.Text(lang, key, nil)
	p, err := newPage(struct {
		Key      string           `json:"key"`
		Language locales.Language `json:"language"`
		Text     string           `json:"text"`
	}{key, used, text})
	if err != nil {
		s.fail(c, err)
		return
	}
	s.localized(c)
	c.Header("Content-Language", string(used))
	s.page(c, p)
}

// locales answers with the languages there are.
func (s *Server) locales(c *gin.Context) { s.page(c, s.texts.locales) }

func (s *Server) page(c *gin.Context, p page) {
	c.Header("Cache-Control", "public, max-age=300")
	if !unchanged(c, p.tag) {
		c.Data(http.StatusOK, "application/json", p.body)
	}
}

// localized says in which language an answer is, and that another caller may
// get another one.
func (s *Server) localized(c *gin.Context) {
	c.Header("Content-Language", string(callOf(c).lang))
	c.Writer.Header().Add("Vary", "Accept-Language")
}
