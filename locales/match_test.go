package locales

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	c := mustLoad(t)
	long := strings.Repeat("xx,", 30_000)
	for _, tc := range []struct {
		explicit, header string
		want             Language
	}{
		// Nothing, or nothing of use.
		{"", "", "en"},
		{"", "*", "en"},
		{"", "xx", "en"},
		{"", ",,,;;;===", "en"},
		{"", "\x00\xff\xfe", "en"},
		{"", "-", "en"},
		{"xx", "", "en"},

		// Bases, regions, scripts.
		{"", "fr-BE", "fr"},
		{"", "nb-NO", "nb"},
		{"", "no", "nb"},
		{"", "nn", "nb"},
		{"", "nn-NO", "nb"},
		{"", "no-NO-x-private", "nb"},
		{"", "zh-TW", "zh"},
		{"", "zh-Hant-TW", "zh"},
		{"", "zh_CN", "zh"},
		{"", "pt-BR", "pt"},
		{"", "pt-PT", "pt"},
		{"", "en-GB", "en"},
		{"", "AR-eg", "ar"},
		{"", "nob", "nb"},
		{"", "deu", "de"},
		{"", "cmn", "zh"},

		// Weights.
		{"", "de;q=0.5, fr;q=0.8", "fr"},
		{"", "de;q=0.8, fr;q=0.5", "de"},
		{"", "de, fr", "de"},
		{"", "fr;q=0.999, de;q=1.000", "de"},
		{"", "xx, fr;q=0.1", "fr"},
		{"", "de;q=0, fr;q=0.1", "fr"},
		{"", "de;q=0", "en"},
		{"", "de;q=0, *", "en"},
		{"", "da ; q = 0.3 , fi ;Q=0.4", "fi"},
		{"", "ja;level=1;q=0.2, ko;q=0.1", "ja"},
		{"", "sv;q=0.5, *;q=0.1", "sv"},
		{"", "sv;q=0.5, *;q=0.9", "en"},
		{"", "*, sv", "sv"},
		{"", "nb-NO,nb;q=0.9,no;q=0.8,nn;q=0.7,en-US;q=0.6,en;q=0.5", "nb"},

		// A broken entry is skipped, the rest counts.
		{"", "de;q=abc, fr;q=0.2", "fr"},
		{"", "de;q=2, fr;q=0.2", "fr"},
		{"", "de;q=1.001, fr;q=0.2", "fr"},
		{"", "de;q=-1, fr;q=0.2", "fr"},
		{"", "de;q=0.1234, fr;q=0.1", "fr"},
		{"", "de;q=NaN, fr;q=0.1", "fr"},
		{"", "de;q=, fr;q=0.1", "fr"},
		{"", "\x80\x80, it", "it"},

		// The caller's explicit wish comes first, if we can meet it.
		{"nb", "de", "nb"},
		{"NO", "de", "nb"},
		{" pl-PL ", "de", "pl"},
		{"xx", "de", "de"},
		{"*", "de", "de"},
		{strings.Repeat("de-", 100), "fr", "fr"},
		{strings.Repeat("d", 100_000), "fr", "fr"},

		// 100 KB: what stands early counts, what stands beyond the limit does not, nor does an entry cut in two.
		{"", "it," + long, "it"},
		{"", long + "it", "en"},
		{"", strings.Repeat(" ", maxHeader-len(",de")) + ",de-CH;q=0.1", "en"},
		{"", strings.Repeat("a", 100_000), "en"},
		{"", strings.Repeat("-", 100_000), "en"},
		{"", strings.Repeat(";q=1", 25_000), "en"},
	} {
		if got := c.Match(tc.explicit, tc.header); got != tc.want {
			t.Errorf("Match(%.40q, %.60q) = %s, want %s", tc.explicit, tc.header, got, tc.want)
		}
	}
}

func TestMatchFindsEveryLanguage(t *testing.T) {
	c := mustLoad(t)
	for _, info := range languages() {
		tag := string(info.Tag)
		for _, header := range []string{tag, strings.ToUpper(tag), tag + "-XX", "xx, " + tag + ";q=0.001"} {
			if got := c.Match("", header); got != info.Tag {
				t.Errorf("Match(%q) = %s", header, got)
			}
		}
		if got := c.Match(tag, "xx"); got != info.Tag {
			t.Errorf("Match(%q, \"xx\") = %s", tag, got)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, seed := range []string{
		"", "*", "nb-NO,nb;q=0.9,en;q=0.5", "de;q=0", "zh-Hant-TW", ";;;", "q=1", "de;q=0.1234", ",", "-", "_", "\x00",
		strings.Repeat("de,", 1000), "xxx", "nob", "i-klingon",
	} {
		f.Add("", seed)
		f.Add(seed, "de")
	}
	c := mustLoad(f)
	f.Fuzz(func(t *testing.T, explicit, header string) {
		got := c.Match(explicit, header)
		if _, ok := c.localizers[got]; !ok {
			t.Fatalf("Match(%q, %q) = %q, which we do not have", explicit, header, got)
		}
		if c.Match(string(got), header) != got {
			t.Errorf("%q asked for by name is not answered", got)
		}
		if got != Default && !strings.ContainsAny(explicit+header, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			t.Errorf("Match(%q, %q) = %q out of no letters", explicit, header, got)
		}
		// What cannot be read must not change the answer for what can.
		if len(header) < maxHeader-10 && c.Match("", header+",;q=x") != c.Match("", header) {
			t.Errorf("a broken entry at the end changes the answer for %q", header)
		}
		if text, _ := c.Text(Language(header), "session_see_later", nil); text == "" {
			t.Errorf("no text for %q", header)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	c := mustLoad(b)
	b.ReportAllocs()
	for b.Loop() {
		c.Match("", "nb-NO,nb;q=0.9,no;q=0.8,nn;q=0.7,en-US;q=0.6,en;q=0.5")
	}
}

// The longest header costs no more than the limit allows.
func BenchmarkMatchHostile(b *testing.B) {
	c := mustLoad(b)
	header := strings.Repeat("xxx-yy;q=0.5,", 8_000)
	b.ReportAllocs()
	for b.Loop() {
		c.Match("", header)
	}
}
