package transcript

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// said is what Read made of a text, a paragraph a line, names before a slash.
func said(text string) (out []string) {
	for _, p := range Read(text) {
		line := p.Text
		if p.Speaker != "" {
			line = p.Speaker + "/" + line
		}
		out = append(out, line)
	}
	return out
}

func TestFormsOfSpeech(t *testing.T) {
	talk := []string{"Ada B/The pump lost pressure.", "Ben C/Was it the seal?", "Ada B/Yes, it was."}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"voices":          {"WEBVTT - Weekly\nKind: captions\n\nSTYLE\n::cue { color: red }\n\nNOTE made by hand\n\nb1-0\n00:01.000 --> 00:04.000 align:start position:0%\n<v.loud Ada B>The pump <i>lost</i>\npressure.</v>\n\nb1-1\n00:05.000 --> 00:06.000\n<v Ben C>Was it the seal?</v>\n\n00:07.000 --> 00:08.000\n<v Ada B>Yes,</v>\n\n00:08.000 --> 00:09.000\n<v Ada B>it was.</v>", talk},
		"two voices":      {"WEBVTT\n\n00:01.000 --> 00:04.000\n<v Ada B>The pump lost pressure.</v> <v Ben C>Was it the seal?</v>\n<v Ada B>Yes, it was.", talk},
		"names in cues":   {"1\n00:00:01,000 --> 00:00:04,000\nAda B: The pump lost\n\n2\n00:00:04,000 --> 00:00:05,000\npressure.\n\n3\n00:00:05,000 --> 00:00:06,000\nBen C: Was it the seal?\n\n4\n00:00:06,000 --> 00:00:07,000\nAda B: Yes, it was.", talk},
		"names above":     {"0:0:1.0 --> 0:0:4.0\nAda B\nThe pump lost pressure.\n\n0:0:5.0 --> 0:0:6.0\nBen C\nWas it the seal?\n\n0:0:7.0 --> 0:0:8.0\nAda B\nYes, it was.\n\n0:0:9.0 --> 0:0:10.0\nBen C\nGood.", append(slices.Clone(talk), "Ben C/Good.")},
		"no names":        {"1\n00:00:01,000 --> 00:00:04,000\n{\\an8}<font color=\"#fff\">The pump lost</font>\n2\n00:00:04,000 --> 00:00:05,000\npressure &amp; heat.\n\n3\n00:00:05,000 --> 00:00:06,000\n[MUSIC]\n\n4\n00:00:07,000 --> 00:00:08,000\n♪ la la ♪\n\n5\n00:00:09,000 --> 00:00:10,000\n(laughs)\n", []string{"The pump lost pressure & heat."}},
		"rolling":         {"WEBVTT\n\n00:01.000 --> 00:02.000\nthe<00:01.200><c> pump</c>\n\n00:02.000 --> 00:03.000\nthe pump\nlost pressure", []string{"the pump lost pressure"}},
		"SubViewer":       {"0:00:01.000,0:00:02.000\nThe pump lost pressure.\n\n0:00:02.000,0:00:03.000\nWas it the seal?", []string{"The pump lost pressure.", "Was it the seal?"}},
		"stamped":         {"[00:03] Ada B: The pump lost pressure.\n[00:07] Ben C: Was it the seal?\n[00:10] Ada B: Yes, it was.", talk},
		"stamp in hours":  {"(1:00:03) Ada B: The pump lost pressure.\n(1:00:07) Ben C: Was it the seal?\n(1:00:10) Ada B: Yes, it was.", talk},
		"bare stamps":     {"00:03 Ada B: The pump lost pressure.\n00:07 Ben C: Was it the seal?\n00:10 Ada B: Yes, it was.", talk},
		"stamps alone":    {"[00:00.000 --> 00:04.000]  The pump lost\n[00:04.000 --> 00:05.000]  pressure.\n[00:06.000 --> 00:07.000]  Was it the seal?", []string{"The pump lost pressure.", "Was it the seal?"}},
		"stamps behind":   {"Ada B (00:03): The pump lost pressure.\nBen C (00:07): Was it the seal?\nAda B (00:10): Yes, it was.", talk},
		"heads":           {"Ada B  0:03\nThe pump lost pressure.\n\nBen C  0:07\nWas it the seal?\n\nAda B  0:10\nYes, it was.", talk},
		"heads of a chat": {"Ada B  9:15 AM\nThe pump lost pressure.\nBen C  9:16 AM\nWas it the seal?\nAda B  9:18 AM\nYes, it was.", talk},
		"heads with date": {"Ada B, [12.04.2026 09:15]\nThe pump lost pressure.\n\nBen C, [12.04.2026 09:16]\nWas it the seal?\n\nAda B, [12.04.2026 09:18]\nYes, it was.", talk},
		"stamped heads":   {"[09:15] Ada B\nThe pump lost pressure.\n\n[09:16] Ben C\nWas it the seal?\n\n[09:18] Ada B\nYes, it was.", talk},
		"speakers":        {"[SPEAKER_00]: The pump lost pressure.\n[SPEAKER_01]: Was it the seal?\n[SPEAKER_00]: Yes, it was.", []string{"SPEAKER_00/The pump lost pressure.", "SPEAKER_01/Was it the seal?", "SPEAKER_00/Yes, it was."}},
		"bold names":      {"**Ada B:** The pump lost pressure.\n\n**Ben C:** Was it the seal?\n\n**Ada B**: Yes, it was.", talk},
		"plain names":     {"Ada B: The pump lost pressure.\nBen C: Was it the seal?\nAda B: Yes, it was.\nBen C: Good.", append(slices.Clone(talk), "Ben C/Good.")},
		"IRC":             {"[09:15] <ada> The pump lost pressure.\n[09:16] <ben> Was it the seal?", []string{"ada/The pump lost pressure.", "ben/Was it the seal?"}},
		"Android": {"12/04/2026, 09:15 - Messages and calls are end-to-end encrypted. Tap to learn more.\n12/04/2026, 09:15 - Ada B: The pump\nlost pressure.\n12/04/2026, 09:15 - Ben C added Carl\n12/04/2026, 09:16 - Ben C: <Media omitted>\n12/04/2026, 09:16 - Ben C: Was it the seal?\n12/04/2026, 09:17 - Ada B: IMG-2026-WA01.jpg (file attached)\n12/04/2026, 09:18 - Ada B: Yes, it was. <This message was edited>\n12/04/2026, 09:19 - Ada B: This message was deleted",
			talk},
		"iPhone":         {"[12/04/2026, 09:15:01] Pumps: \u200eMessages and calls are end-to-end encrypted.\n[12/04/2026, 09:15:02] Ada B: The pump lost pressure.\n\u200e[12/04/2026, 09:16:03] Ben C: \u200eimage omitted\n[12/04/2026, 09:16:04] Ben C: Was it the seal?\n[12/04/2026, 09:18:05] Ada B: Yes, it was.", talk},
		"American":       {"4/12/26, 9:15\u202fAM - Ada B: The pump lost pressure.\n4/12/26, 9:16\u202fAM - Ben C: Was it the seal?\n4/12/26, 9:18\u202fAM - Ada B: Yes, it was.", talk},
		"German":         {"12.04.26, 09:15 - Nachrichten sind Ende-zu-Ende-verschlüsselt.\n12.04.26, 09:15 - Ada B: The pump lost pressure.\n12.04.26, 09:16 - Ben C: <Medien ausgeschlossen>\n12.04.26, 09:16 - Ben C: Was it the seal?\n12.04.26, 09:18 - Ada B: Yes, it was.", talk},
		"Finnish":        {"12.4.2026 klo 9.15 - Ada B: The pump lost pressure.\n12.4.2026 klo 9.16 - Ben C: Was it the seal?\n12.4.2026 klo 9.18 - Ada B: Yes, it was.", talk},
		"copied":         {"[09:15, 12/04/2026] Ada B: The pump lost pressure.\n[09:16, 12/04/2026] Ben C: Was it the seal?\n[09:18, 12/04/2026] Ada B: Yes, it was.", talk},
		"meeting's chat": {"09:15:02 From Ada B to Everyone: The pump lost pressure.\n09:16:03 From Ben C to Ada B(Direct Message): Was it the seal?\n09:18:05 From Ada B to Everyone: Yes, it was.", talk},
		"log":            {"2026-04-12T09:15:00Z Ada B: The pump lost pressure.\n2026-04-12 09:16:00 Ben C: Was it the seal?\n2026-04-12 09:18:00 Ada B: Yes, it was.", talk},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(c.text); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if got := said(strings.ReplaceAll(c.text, "\n", "\r\n")); !slices.Equal(got, c.want) {
				t.Errorf("with Windows' line ends: got %q\nwant %q", got, c.want)
			}
		})
	}
}

// What only resembles speech stays as it was written.
func TestProseStaysAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"settings":       {"Name: Tidings\nPort: 80\nMode: dev\nLevel: info", []string{"Name: Tidings", "Port: 80", "Mode: dev", "Level: info"}},
		"addresses":      {"https://a.example\nhttps://b.example\nhttps://a.example\nhttps://b.example", []string{"https://a.example", "https://b.example", "https://a.example", "https://b.example"}},
		"agenda":         {"09:00 Coffee\n09:15 The budget\n10:30 Questions", []string{"09:00 Coffee", "09:15 The budget", "10:30 Questions"}},
		"a time":         {"We met at 9:15 and left at 10:30.\nNobody knew why.", []string{"We met at 9:15 and left at 10:30.", "Nobody knew why."}},
		"tags in prose":  {"Use <b> for bold and <i> for the rest.", []string{"Use <b> for bold and <i> for the rest."}},
		"comparison":     {"a < b and c > d", []string{"a < b and c > d"}},
		"wrapped lines":  {"The meeting was moved to the large room on the second\nfloor because of the noise.\nBring a chair.", []string{"The meeting was moved to the large room on the second floor because of the noise.", "Bring a chair."}},
		"lists":          {"Buy:\n- milk\n2) eggs\n① bread\n一、茶", []string{"Buy:", "milk", "eggs", "bread", "茶"}},
		"no list":        {"3.5 litres\n-5 degrees", []string{"3.5 litres", "-5 degrees"}},
		"Markdown":       {"# Review\n\nWe **must** read [the report](https://example.com/r) ![x](y.png) today.\n> Quoted words.\n\nsnake_case_name stays", []string{"Review", "We must read the report today.", "Quoted words.", "snake_case_name stays"}},
		"a table":        {"| Item | Cost |\n| --- | ---: |\n| Seals | 1,200 |\n\nWe buy seals.", []string{"Item Cost", "Seals 1,200", "We buy seals."}},
		"an open table":  {"Item | Cost\n--- | ---\nSeals | 1,200\n\nWe buy seals.", []string{"Item Cost", "Seals 1,200", "We buy seals."}},
		"a page":         {"<!DOCTYPE html><head><title>T</title><style>.a{}</style></head><nav>Home</nav><h1>Pump</h1><p>It lost\npressure &amp; heat.<br>At 3&nbsp;a.m.</p><ul><li>Seals<li>Pumps</ul><script>var x = '</p>'</script><footer>2026</footer>", []string{"Pump", "It lost pressure & heat.", "At 3 a.m.", "Seals", "Pumps"}},
		"a rule alone":   {"---\n===", []string{"--- ==="}},
		"hidden marks":   {"a\u202eb\u202cc \u2066d\u2069\ufeff\u00ad", []string{"abc d"}},
		"joined letters": {"👩\u200d👧 می\u200cخواهم", []string{"👩\u200d👧 می\u200cخواهم"}},
		"not UTF-8":      {"\xff\xfea \xc3", []string{"\uFFFD\uFFFDa \uFFFD"}},
		"nothing":        {" \n\u200b\u2060\t\u0301", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(c.text); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add("WEBVTT\n\n00:01.000 --> 00:04.000\n<v Ada B>The pump</v>")
	f.Add("[00:03] Ada B: The pump.\n[00:07] Ben C: The seal?")
	f.Add("12/04/2026, 09:15 - Ada B: <Media omitted>\n12/04/2026, 09:16 - Ben C: Hi")
	f.Add("<p>a</p>| a |\n|---|\n```\n# x")
	f.Fuzz(func(t *testing.T, text string) {
		all := Read(text)
		if len(all) > 0 && Blank(text) {
			t.Errorf("read %v out of nothing", all)
		}
		for _, p := range all {
			if Blank(p.Text) || !utf8.ValidString(p.Text) || strings.ContainsAny(p.Text, "\n\r\x00") {
				t.Errorf("bad paragraph %q", p.Text)
			}
		}
	})
}
