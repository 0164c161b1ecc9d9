package transcript

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	clock = `\d{1,3}:\d{1,2}(?::\d{1,2})?(?:[.,]\d{1,3})?(?:Z|[+-]\d{2}:?\d{2})?(?: ?[AaPp]\.? ?[Mm]\b\.?)?`
	date  = `\d{1,4}(?:[./-]\d{1,2}|[./ -]\pL{3,9}\.?)[./ -]\d{2,4}\.?`
	// A day's time may have a dot, and a small word before it: 12.4.2026 klo 9.15.
	dayTime = date + `(?:,? (?:\pL{1,3}\.? )?|T)(?:` + clock + `|\d{1,2}\.\d{2}(?:\.\d{2})?)|` + clock + `, ` + date
	until   = `(?: *(?:-->|->|–|-) *` + clock + `)?`
)

var (
	// cueTime is the line above a cue's text, of WebVTT, SubRip or SubViewer. Behind
	// it may stand where the cue is shown.
	cueTime = regexp.MustCompile(`^` + clock + ` *(?:-->|->|,) *` + clock + `(?: +\w+:\S+)*$`)
	// stampBefore is a time before what was said; the groups tell a date, and
	// brackets, from a bare time.
	stampBefore = regexp.MustCompile(`^(?:\[(?:(` + dayTime + `)|` + clock + until + `)\]|\((?:(` + dayTime + `)|` + clock + until + `)\)|(` + dayTime + `)|(` + clock + until + `))(?: *[-–—|:]+(?: +|$)| +|$)`)
	bracketed   = regexp.MustCompile(`^[\[(]`)
	// stampBehind is a time behind a name: "Ada B  0:03", "Ada B [00:03]: text".
	stampBehind = regexp.MustCompile(`^(\pL[^:\[(,]{0,40}?)(?: *[,–—-] *| +)(?:[\[(](?:` + dayTime + `|` + clock + until + `)[\])](?: *:)?|(?:` + dayTime + `|` + clock + `):?$)(?: +|$)(.*)`)
	// inBrackets is a name such as [SPEAKER_00]: or <ada>.
	inBrackets = regexp.MustCompile(`^(?:\[(\pL[\pL\pN _.'-]{0,40})\](?: *:)?|<([^<>\s/]{1,40})>) +(.+)`)
	inBold     = regexp.MustCompile(`^(?:\*\*|__)(\pL[^*:：]{0,40})(?:(?:\*\*|__)[:：]|[:：](?:\*\*|__))\s*(.*)`)
	sentTo     = regexp.MustCompile(`^From +(.+?)(?: +to +.+?)? *: *(.*)$`)

	voice  = regexp.MustCompile(`<v(?:\.[^ >]*)? +([^>]*)>`)
	markup = regexp.MustCompile(`</?(?:[a-zA-Z][a-zA-Z0-9.]*(?: [^<>]*)?|\d[\d:.]*)>|\{\\[^}]*\}`)
	// sound is a line of nobody's words: [Music], (laughter), ♪ la la ♪.
	sound = regexp.MustCompile(`^(?:\[[^\]]*\]|\([^)]*\)|（[^）]*）|【[^】]*】|\*[^*]+\*|♪.*|[♪♫ ]+)$`)
	// notice is what a chat's program puts in the place of a message. What it says in
	// brackets is in the phone's language.
	notice = regexp.MustCompile(`(?i)^(?:<[^<>]*>|\S+\.\w{2,4} \([^()]*\)|(?:image|video|audio|sticker|gif|document|contact card|voice message)s? omitted|` +
		`(?:this message was|you) deleted(?: this message)?\.?|missed (?:voice|video) call.*|messages and calls are end-to-end encrypted.*|null)$`)
	edited = regexp.MustCompile(` *<[^<>]*>$`)
)

// line is one line of speech.
type line struct {
	name, text string
	stamped    bool // a time stood there
	dated      bool // with a date: a chat
	sure       bool // and in a way that prose does not have
}

// readSpeech returns nothing where the lines do not look like speech.
func readSpeech(lines []string) []Paragraph {
	if cues := readCues(lines); cues != nil {
		return join(cues, true)
	}
	var all []line
	for i, l := range lines {
		l = squeeze(l)
		if Blank(l) {
			continue
		}
		next := ""
		if i+1 < len(lines) {
			next = squeeze(lines[i+1])
		}
		all = append(all, readLine(l, next))
	}
	if !isSpeech(all) {
		return nil
	}
	return join(all, false)
}

// isSpeech wants times in a form, or with names, that prose does not have; or
// names that most lines have and that come back: a list of settings has keys
// that do not.
func isSpeech(all []line) bool {
	stamped, named, spoken := 0, 0, 0
	names := map[string]int{}
	for _, l := range all {
		if l.stamped && (l.sure || l.name != "") {
			stamped++
		}
		if l.name != "" {
			names[l.name]++
			if spoken++; l.sure {
				named++
			}
		}
	}
	if stamped >= 2 && stamped*4 >= len(all) || named >= 2 && named*2 >= len(all) {
		return true
	}
	return spoken >= 4 && spoken*3 >= len(all)*2 && len(names) >= 2 && len(names)*2 <= spoken
}

// readCues returns the text of cues, nil where there are none. In WebVTT all that
// stands in no cue is a header, a note or a style.
func readCues(lines []string) (all []line) {
	times, vtt, inCue, first, last := 0, false, false, false, ""
	for i, raw := range lines {
		l := squeeze(raw)
		if times == 0 && strings.HasPrefix(l, "WEBVTT") {
			vtt = true
		}
		switch {
		case cueTime.MatchString(l):
			times++
			inCue, first = true, true
			continue
		case l == "":
			inCue = false
			continue
		case !inCue && (vtt || times == 0), isNumber(l) && nextIsCue(lines[i+1:]), !inCue && nextIsCue(lines[i+1:]):
			continue
		}
		// A name may have a line of its own above the words.
		if first && i+1 < len(lines) && squeeze(lines[i+1]) != "" && isName(l) && !endsSentence(l) && countLines(lines, l) >= 2 && !cueTime.MatchString(squeeze(lines[i+1])) {
			all, first = append(all, line{name: l}), false
			continue
		}
		first = false
		for _, part := range strings.Split(voice.ReplaceAllString(l, "\n$1\x00"), "\n") {
			name, text, spoken := strings.Cut(part, "\x00")
			if !spoken {
				name, text = "", part
			}
			text = squeeze(html.UnescapeString(markup.ReplaceAllString(text, "")))
			if strings.HasPrefix(text, "- ") || strings.HasPrefix(text, ">> ") { // somebody else speaks
				text = strings.TrimLeft(text, ">- ")
				all = append(all, line{name: " "})
			}
			if name == "" {
				if n, rest, ok := speakerOf(text); ok {
					name, text = n, rest
				}
			}
			if Blank(text) || text == last { // captions that roll say each line twice
				continue
			}
			last = text
			all = append(all, line{name: squeeze(html.UnescapeString(name)), text: text})
		}
	}
	if times == 0 {
		return nil
	}
	return all
}

func nextIsCue(lines []string) bool { return len(lines) > 0 && cueTime.MatchString(squeeze(lines[0])) }

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }

// countLines stops at the second one, which is all that is asked for.
func countLines(lines []string, want string) (n int) {
	for _, l := range lines {
		if squeeze(l) == want {
			if n++; n == 2 {
				break
			}
		}
	}
	return n
}

// readLine takes the time and the name off a line.
func readLine(l, next string) (out line) {
	l = strings.TrimLeft(l, "\u200e\u200f ")
	if m := stampBefore.FindStringSubmatch(l); m != nil {
		out.stamped, out.dated = true, m[1]+m[2]+m[3] != ""
		out.sure = out.dated || bracketed.MatchString(l) || strings.Count(m[4], ":") > 1
		l = l[len(m[0]):]
	}
	switch m := stampBehind.FindStringSubmatch(l); {
	case out.stamped:
	case m != nil && isName(m[1]) && !endsSentence(m[1]):
		return line{name: strings.TrimSpace(m[1]), text: m[2], stamped: true, sure: true}
	}
	if m := inBold.FindStringSubmatch(l); m != nil {
		out.name, out.text, out.sure = m[1], m[2], true
		return out
	}
	if m := inBrackets.FindStringSubmatch(l); m != nil {
		out.name, out.text = m[1]+m[2], m[3]
		out.sure = out.sure || strings.HasPrefix(l, "["+m[1]+"]:") || strings.HasPrefix(m[1], "SPEAKER")
		return out
	}
	if m := sentTo.FindStringSubmatch(l); m != nil && out.stamped {
		out.name, out.text = m[1], m[2]
		return out
	}
	var ok bool
	if out.name, out.text, ok = speakerOf(l); ok {
		return out
	}
	name := strings.TrimRight(l, ":：")
	if out.stamped && isName(name) && !endsSentence(name) && next != "" && !stampBefore.MatchString(next) {
		out.name = name // the words stand below
		return out
	}
	out.text = l
	return out
}

// speakerOf splits "Name: words". White space follows the colon, so that
// addresses and times hold no speaker.
func speakerOf(l string) (name, rest string, ok bool) {
	i := strings.IndexAny(l[:min(len(l), 64)], ":：")
	if i <= 0 {
		return "", "", false
	}
	_, size := utf8.DecodeRuneInString(l[i:])
	name, rest = strings.TrimSpace(l[:i]), l[i+size:]
	if !isName(name) || size == 1 && rest != "" && !strings.HasPrefix(rest, " ") {
		return "", "", false
	}
	rest = strings.TrimSpace(rest)
	return name, rest, rest != ""
}

// isName tells what may be one: short, at most four words, a letter, an @, a ~ or
// a + first. Phones show a number where they know no name.
func isName(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return s != "" && (unicode.IsLetter(first) || strings.ContainsRune("@~+", first)) && utf8.RuneCountInString(s) <= 40 && strings.Count(s, " ") <= 3 &&
		!strings.ContainsAny(s, "<>{}=|\"/")
}

// join makes paragraphs of lines. A sentence goes on over cues, and over lines
// that end in its middle; messages stand for themselves.
func join(all []line, cues bool) (out []Paragraph) {
	anyName := false
	for _, l := range all {
		anyName = anyName || l.name != ""
	}
	speaker, begun := "", false
	for _, l := range all {
		if l.dated && l.name == "" && anyName {
			continue // the chat's own: who joined, what is encrypted
		}
		changed := l.name != "" && l.name != speaker
		if l.name != "" {
			speaker, begun = l.name, true
		}
		begun = begun || l.stamped || cues || !anyName
		if strings.HasPrefix(l.text, "\u200e") && l.dated { // how WhatsApp marks its own words
			continue
		}
		text := strings.TrimLeft(l.text, "\u200e\u200f ")
		if notice.MatchString(text) || sound.MatchString(text) {
			continue
		}
		if l.dated {
			text = edited.ReplaceAllString(text, "")
		}
		if text = plain(text); Blank(text) {
			continue
		}
		p := Paragraph{Speaker: strings.TrimSpace(speaker), Text: text}
		if !begun {
			p.Kind = Aside
		}
		if n := len(out); n > 0 && !changed && out[n-1].Kind == p.Kind && goesOn(out[n-1].Text, text, cues) {
			out[n-1].Text += " " + text
			continue
		}
		out = append(out, p)
	}
	return out
}

// maxParagraph bounds what lines are joined to, in bytes: speech without a full
// stop has no other end.
const maxParagraph = 1 << 12

func goesOn(before, text string, cues bool) bool {
	if len(before) > maxParagraph || endsSentence(before) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(text)
	return cues || unicode.IsLower(first)
}
