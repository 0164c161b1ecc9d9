package tidings

import "unicode/utf8"

// decodeUTF8 reads bytes as the WHATWG decoder does: each maximal part of a
// sequence that cannot be completed becomes one U+FFFD. strings.ToValidUTF8
// makes one of a whole run, a conversion to runes makes one of each byte; a
// browser does neither, and all clients have to show the same text.
func decodeUTF8(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b)+utf8.UTFMax)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			size = brokenPart(b)
		}
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return string(out)
}

// brokenPart is the length of the maximal subpart that b, which starts with a
// malformed sequence, begins with.
func brokenPart(b []byte) int {
	// The byte after the first has a narrower range where a wider one would
	// allow overlong forms, surrogates, or values beyond U+10FFFF.
	lo, hi := byte(0x80), byte(0xBF)
	var length int
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		length = 2
	case c >= 0xE0 && c <= 0xEF:
		length = 3
	case c >= 0xF0 && c <= 0xF4:
		length = 4
	}
	switch b[0] {
	case 0xE0:
		lo = 0xA0
	case 0xED:
		hi = 0x9F
	case 0xF0:
		lo = 0x90
	case 0xF4:
		hi = 0x8F
	}
	n := 1
	for n < length && n < len(b) && lo <= b[n] && b[n] <= hi {
		n++
		lo, hi = 0x80, 0xBF
	}
	return n
}
