package tokenizer

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// later are the characters with normal forms newer than Unicode 9.0, which the library uses: it treats them
// neither as marks nor as composed. Properties of older characters never change.
var later = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x05C8, 0x05C9, 1}, {0x07FD, 0x07FD, 1}, {0x0897, 0x089F, 1}, {0x08CA, 0x08D3, 1}, {0x09FE, 0x09FE, 1}, {0x0C3C, 0x0C3C, 1},
		{0x0D3B, 0x0D3C, 1}, {0x0EBA, 0x0EBA, 1}, {0x1715, 0x1715, 1}, {0x1ABF, 0x1AF0, 1}, {0x1DF6, 0x1DFA, 1}, {0xA82C, 0xA82C, 1},
	},
	R32: []unicode.Range32{
		{0x105C9, 0x105C9, 1}, {0x105E4, 0x105E4, 1}, {0x10D24, 0x10D27, 1}, {0x10D69, 0x10D6D, 1}, {0x10EAB, 0x10EAC, 1},
		{0x10ECB, 0x10ECF, 1}, {0x10EF0, 0x10EFB, 1}, {0x10EFD, 0x10EFF, 1}, {0x10F46, 0x10F50, 1}, {0x10F82, 0x10F85, 1},
		{0x11070, 0x11070, 1}, {0x1133B, 0x1133B, 1}, {0x11383, 0x11383, 1}, {0x11385, 0x11385, 1}, {0x1138E, 0x1138E, 1},
		{0x11391, 0x11391, 1}, {0x113C5, 0x113C5, 1}, {0x113C7, 0x113C8, 1}, {0x113CE, 0x113D0, 1}, {0x1145E, 0x1145E, 1},
		{0x11839, 0x1183A, 1}, {0x11938, 0x11938, 1}, {0x1193D, 0x1193E, 1}, {0x11943, 0x11943, 1}, {0x119E0, 0x119E0, 1},
		{0x11A34, 0x11A34, 1}, {0x11A47, 0x11A47, 1}, {0x11A99, 0x11A99, 1}, {0x11D42, 0x11D42, 1}, {0x11D44, 0x11D45, 1},
		{0x11D97, 0x11D97, 1}, {0x11F41, 0x11F42, 1}, {0x16121, 0x16128, 1}, {0x1612F, 0x1612F, 1}, {0x16D68, 0x16D6A, 1},
		{0x16FF0, 0x16FF1, 1}, {0x1D127, 0x1D128, 1}, {0x1D250, 0x1D252, 1}, {0x1D25B, 0x1D25C, 1}, {0x1D25F, 0x1D25F, 1},
		{0x1D280, 0x1D281, 1}, {0x1E08F, 0x1E08F, 1}, {0x1E130, 0x1E136, 1}, {0x1E2AE, 0x1E2AE, 1}, {0x1E2EC, 0x1E2EF, 1},
		{0x1E4EC, 0x1E4EF, 1}, {0x1E5EE, 0x1E5EF, 1}, {0x1E6E3, 0x1E6E3, 1}, {0x1E6E6, 0x1E6E6, 1}, {0x1E6EE, 0x1E6EF, 1},
		{0x1E6F5, 0x1E6F5, 1},
	},
}

// composed returns text's NFC as the library computes it: by Unicode 9.0, and without the joiner that package
// norm inserts after thirty marks.
func composed(text string) string {
	if norm.NFC.IsNormalString(text) {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	var run []rune // a character and its marks, decomposed
	var classes []uint8
	flush := func() {
		for _, r := range compose(run, classes) {
			out.WriteRune(r)
		}
		run, classes = run[:0], classes[:0]
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		whole := text[at : at+size]
		at += size
		p := norm.NFD.PropertiesString(whole)
		if unicode.Is(later, r) {
			flush()
			out.WriteRune(r)
			continue
		}
		parts := whole
		if d := p.Decomposition(); d != nil {
			parts = string(d)
		}
		for _, part := range parts {
			class := norm.NFD.PropertiesString(string(part)).CCC()
			if class == 0 && !joinsLeft(part) {
				flush()
			}
			run, classes = append(run, part), append(classes, class)
		}
	}
	flush()
	return out.String()
}

// compose orders a run's marks by class and composes where possible.
func compose(run []rune, classes []uint8) []rune {
	order(run, classes)
	out := run[:0:0]
	starter := -1
	last := 0 // class of the last mark in out after the starter
	for i, r := range run {
		class := int(classes[i])
		if starter >= 0 && (len(out) == starter+1 || last < class) {
			if c, ok := composites().of[[2]rune{out[starter], r}]; ok {
				out[starter] = c
				continue
			}
			if c, ok := hangul(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		last = class
		out = append(out, r)
	}
	return out
}

// order sorts the marks between characters of class 0, stably.
func order(run []rune, classes []uint8) {
	type mark struct {
		r     rune
		class uint8
	}
	for at := 0; at < len(run); {
		end := at
		for end < len(run) && classes[end] != 0 {
			end++
		}
		if marks := make([]mark, end-at); len(marks) > 1 {
			for i := range marks {
				marks[i] = mark{run[at+i], classes[at+i]}
			}
			slices.SortStableFunc(marks, func(a, b mark) int { return int(a.class) - int(b.class) })
			for i, m := range marks {
				run[at+i], classes[at+i] = m.r, m.class
			}
		}
		at = end + 1
	}
}

// Hangul syllables are composed of leading, vowel and trailing letters.
const (
	firstSyllable, firstLeading, firstVowel, beforeTrailing = 0xAC00, 0x1100, 0x1161, 0x11A7
	leadings, vowels, trailings                             = 19, 21, 28
)

func hangul(a, b rune) (rune, bool) {
	switch {
	case a >= firstLeading && a < firstLeading+leadings && b >= firstVowel && b < firstVowel+vowels:
		return firstSyllable + ((a-firstLeading)*vowels+b-firstVowel)*trailings, true
	case a >= firstSyllable && a < firstSyllable+leadings*vowels*trailings && (a-firstSyllable)%trailings == 0 &&
		b > beforeTrailing && b < beforeTrailing+trailings:
		return a + b - beforeTrailing, true
	}
	return 0, false
}

// compositions are the pairs of characters that compose, except Hangul, and the characters of class 0 that
// are second in a pair.
type compositions struct {
	of     map[[2]rune]rune
	second map[rune]bool
}

var composites = sync.OnceValue(func() compositions {
	c := compositions{map[[2]rune]rune{}, map[rune]bool{}}
	for r := rune(0x80); r < 0x30000; r++ {
		if r == firstSyllable {
			r += leadings * vowels * trailings
		}
		whole := string(r)
		d := norm.NFD.PropertiesString(whole).Decomposition()
		if d == nil || unicode.Is(later, r) || !norm.NFC.IsNormalString(whole) {
			continue
		}
		last, size := utf8.DecodeLastRune(d)
		first := []rune(norm.NFC.String(string(d[:len(d)-size])))
		if len(first) != 1 {
			continue
		}
		c.of[[2]rune{first[0], last}] = r
		if norm.NFD.PropertiesString(string(last)).CCC() == 0 {
			c.second[last] = true
		}
	}
	return c
})

// joinsLeft reports whether r, of class 0, can compose with a preceding character.
func joinsLeft(r rune) bool {
	return composites().second[r] || r >= firstVowel && r < firstVowel+vowels || r > beforeTrailing && r < beforeTrailing+trailings
}
