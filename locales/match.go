package locales

import (
	"strings"

	"golang.org/x/text/language"
)

const (
	// maxHeader bounds the work a header can cause. Browsers send fewer than 200 bytes.
	maxHeader = 1024
	// maxTag is the length that BCP 47 advises programs to be ready for.
	maxTag = 35
)

// Match picks the language for a connection: explicit (from ?lang=, may be "") when we have that language, otherwise the
// entry of the Accept-Language header that has the highest q and that we have, otherwise Default.
//
// A region or script is ignored (pt-BR and pt-PT are pt, zh-Hant is zh); no and nn are nb. Malformed entries are
// skipped one by one, so a broken entry does not take the good ones with it.
//
// This does not use the matcher of golang.org/x/text: it sends nn to English, knows degrees of kinship we have no use for
// with one text per language, and its parser gives up on the whole header at the first broken entry.
func (c *Catalog) Match(explicit, acceptLanguage string) Language {
	if lang, ok := c.base(explicit); ok {
		return lang
	}
	best, bestQ, anyQ := Default, 0, 0
	for entry := range strings.SplitSeq(bounded(acceptLanguage), ",") {
		tag, q, ok := parseEntry(entry)
		if !ok {
			continue
		}
		if tag == "*" {
			anyQ = max(anyQ, q)
			continue
		}
		// Of equals the first wins: people list what they prefer first.
		if lang, ok := c.base(tag); ok && q > bestQ {
			best, bestQ = lang, q
		}
	}
	if anyQ > bestQ {
		return Default
	}
	return best
}

// bounded cuts an overlong header before the entry that crosses the limit.
func bounded(header string) string {
	if len(header) <= maxHeader {
		return header
	}
	header = header[:maxHeader]
	return header[:max(0, strings.LastIndexByte(header, ','))]
}

// base finds the language of a tag such as "nb-NO".
func (c *Catalog) base(tag string) (Language, bool) {
	tag = strings.TrimSpace(tag)
	if len(tag) > maxTag {
		return "", false
	}
	if i := strings.IndexAny(tag, "-_"); i >= 0 {
		tag = tag[:i]
	}
	tag = strings.ToLower(tag)
	if len(tag) == 3 {
		// Three-letter codes of the same languages: "nob", "deu", "cmn". (Macro makes "no" of nb; see below.)
		if parsed, err := language.Macro.Parse(tag); err == nil {
			base, _ := parsed.Base()
			tag = base.String()
		}
	}
	switch tag {
	case "no", "nn":
		tag = "nb"
	}
	lang := Language(tag)
	_, ok := c.localizers[lang]
	return lang, ok
}

// parseEntry reads one entry of the header, "de-CH;q=0.8", with q in thousandths.
func parseEntry(entry string) (tag string, q int, ok bool) {
	tag, params, _ := strings.Cut(entry, ";")
	q = 1000
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, ok = parseQ(strings.TrimSpace(value)); !ok {
			return "", 0, false
		}
	}
	return strings.TrimSpace(tag), q, true
}

// parseQ reads a weight in thousandths, as RFC 9110 section 12.4.2 writes it: 0 to 1 with at most three decimals.
func parseQ(s string) (thousandths int, ok bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0, false
	}
	thousandths = int(whole[0]-'0') * 1000
	unit := 100
	for _, digit := range []byte(decimals) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		thousandths += int(digit-'0') * unit
		unit /= 10
	}
	return thousandths, thousandths <= 1000
}
