package transcript

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
)

var (
	tableRule = regexp.MustCompile(`^\|?(?: *:?-{2,}:? *\|)+(?: *:?-{2,}:? *)?$`)
	image     = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)|<!--.*?-->`)
	link      = regexp.MustCompile(`\[([^\[\]]+)\]\((?:https?:|mailto:|#|/|\.)[^()\s]*(?: "[^"]*")?\)`)
	strong    = regexp.MustCompile(`(\*\*|__)(\S(?:[^*]*?\S)?)(?:\*\*|__)`)
	bullet    = regexp.MustCompile(`^(?:[-*+•‣◦▪–—·●○]|\(?\d{1,3}[.)]) +(?:\[[ xX]\] +)?|^[①-⑳] *|^[\d一二三四五六七八九十]{1,2}[、．]`)
	heading   = regexp.MustCompile(`^#{1,6} +`)
	quoted    = regexp.MustCompile(`^(?:> ?)+`)
)

// readProse finds paragraphs, list items, headings, tables and code among lines,
// and joins lines that were only wrapped.
func readProse(lines []string) (out []Paragraph) {
	fence, table, gap, wrapped := false, false, true, 0
	for i, raw := range lines {
		l := quoted.ReplaceAllString(squeeze(raw), "")
		if strings.HasPrefix(l, "```") || strings.HasPrefix(l, "~~~") {
			fence, gap = !fence, true
			continue
		}
		// A table's head stands above its rule.
		table = !fence && strings.Contains(l, "|") && (table || strings.HasPrefix(l, "|") && strings.HasSuffix(l, "|") || i+1 < len(lines) && tableRule.MatchString(squeeze(lines[i+1])))
		if Blank(l) || isRule(l) || table && tableRule.MatchString(l) {
			gap = true
			continue
		}
		p := Paragraph{Text: l}
		switch {
		case fence:
			p.Kind = Aside
		case table:
			p.Kind, p.Text = Aside, squeeze(strings.ReplaceAll(l, "|", " "))
		case heading.MatchString(l):
			p.Kind, p.Text = Heading, strings.TrimRight(heading.ReplaceAllString(l, ""), "# ")
		case bullet.MatchString(l):
			p.Kind, p.Text = Item, bullet.ReplaceAllString(l, "")
		}
		if p.Kind != Aside {
			p.Text = plain(p.Text)
		}
		if Blank(p.Text) {
			p = Paragraph{Text: l}
		}
		if n := len(out); !gap && p.Kind == Prose && n > 0 && (out[n-1].Kind == Prose || out[n-1].Kind == Item) && wraps(out[n-1].Text, wrapped, p.Text) {
			out[n-1].Text += " " + p.Text
		} else {
			out = append(out, p)
		}
		gap, wrapped = p.Kind == Heading || p.Kind == Aside, utf8.RuneCountInString(p.Text)
	}
	if all := squeeze(strings.Join(lines, " ")); len(out) == 0 && !Blank(all) {
		return []Paragraph{{Text: all}} // nothing but rules and fences
	}
	// A first short line without an end, above other text, is a heading in every
	// language.
	if len(out) > 2 && out[0].Kind == Prose && utf8.RuneCountInString(out[0].Text) <= 70 && !endsSentence(out[0].Text) {
		out[0].Kind = Heading
	}
	return out
}

func isRule(l string) bool { return len(l) >= 3 && strings.Trim(l, "-=_*#~+ ") == "" }

// plain takes Markdown off that stands within a line.
func plain(s string) string {
	if !strings.ContainsAny(s, "*_[<") {
		return s
	}
	s = link.ReplaceAllString(image.ReplaceAllString(s, ""), "$1")
	return squeeze(strong.ReplaceAllString(s, "$2"))
}

// wraps reports whether text goes on a paragraph whose last line had n runes and
// was broken by an editor, and not by a writer who was done.
func wraps(before string, n int, text string) bool {
	if n < 45 || endsSentence(before) || len(before) > maxParagraph {
		return false
	}
	first, _ := utf8.DecodeRuneInString(text)
	last, _ := utf8.DecodeLastRuneInString(before)
	return unicode.IsLower(first) || n >= 60 && n <= 100 && (unicode.IsLower(last) || last == ',')
}

const ends = ".!?…。！？｡؟۔।॥՞:："

func endsSentence(s string) bool {
	s = strings.TrimRightFunc(s, func(r rune) bool { return strings.ContainsRune("\"'*_", r) || unicode.In(r, unicode.Pe, unicode.Pf) })
	last, _ := utf8.DecodeLastRuneInString(s)
	return strings.ContainsRune(ends, last)
}

// blockEnds shows that a text is a web page, or a part of one: tags that prose
// about tags seldom closes.
var blockEnds = regexp.MustCompile(`(?i)</(?:p|div|h[1-6]|li|ul|ol|td|tr|table|body|html|section|article|blockquote|tt)>|<br ?/?>|<!doctype html`)

func isPage(text string) bool {
	return strings.Contains(text, "<") && !strings.Contains(text, "```") && blockEnds.MatchString(text)
}

// pageText is what a reader sees of a page, with marks that readProse knows. What
// stands around the page's own words (navigation, forms, the foot) is left out.
func pageText(page string) string {
	var b strings.Builder
	hidden, pre := "", false
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			if text := string(z.Text()); hidden == "" && pre {
				b.WriteString(text)
			} else if hidden == "" {
				b.WriteString(strings.ReplaceAll(text, "\n", " "))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			tag, _ := z.TagName()
			name := string(tag)
			switch name {
			case "script", "style", "head", "nav", "footer", "aside", "form", "noscript", "template", "svg", "button", "iframe":
				if hidden == "" {
					hidden = name
				}
			case "pre":
				pre = true
			case "h1", "h2", "h3", "h4", "h5", "h6":
				b.WriteString("\n\n# ")
			case "li":
				b.WriteString("\n- ")
			case "td", "th":
				b.WriteString(" | ")
			case "p", "div", "br", "tr", "ul", "ol", "table", "section", "article", "blockquote", "main", "header", "body":
				b.WriteString("\n")
			}
		case html.EndTagToken:
			tag, _ := z.TagName()
			switch name := string(tag); name {
			case hidden:
				hidden = ""
			case "pre":
				pre = false
			case "tr":
				b.WriteString(" |\n")
			case "p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "section", "article", "blockquote", "header":
				b.WriteString("\n\n")
			}
		}
	}
}
