package tokenizer

import (
	"strings"
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

// joiner is what package norm inserts after thirty marks and the library does not. Taking it out again leaves
// one difference: package norm orders and composes no marks across it.
const joiner = "\u034f"

// composed returns text's NFC as the library computes it, by Unicode 9.0.
func composed(text string) string {
	if norm.NFC.IsNormalString(text) {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	for text != "" {
		end := strings.IndexFunc(text, isLater)
		if end < 0 {
			end = len(text)
		}
		normal := norm.NFC.String(text[:end])
		if !strings.Contains(text[:end], joiner) {
			normal = strings.ReplaceAll(normal, joiner, "")
		}
		for _, r := range normal {
			if isLater(r) {
				out.WriteString(norm.NFD.String(string(r)))
			} else {
				out.WriteRune(r)
			}
		}
		_, size := utf8.DecodeRuneInString(text[end:])
		out.WriteString(text[end : end+size])
		text = text[end+size:]
	}
	return out.String()
}

func isLater(r rune) bool { return unicode.Is(later, r) }
