package regex

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// unicodeText has the class of every code point, see scripts/make_tokenizer_unicode.py.
//
//go:embed unicode.txt
var unicodeText string

// The general categories by their number in a class. Cn is unassigned.
var categoryNames = strings.Fields("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cs Cn")

const (
	lastRune = 0x10FFFF
	category = 1<<5 - 1 // bits of a class that hold the category
	wordBit  = 1 << 5   // Rust's \w
)

// classes are the classes of all code points, in pages of 256.
type classes [(lastRune + 1) / 256]*[256]uint8

// of returns the class of a code point, for invalid ones that of U+FFFD.
func (c *classes) of(r rune) uint8 {
	if uint32(r) > lastRune {
		r = 0xFFFD
	}
	return c[r>>8][r&0xFF]
}

// table reads unicode.txt once. Equal pages are shared.
var table = sync.OnceValue(func() *classes {
	type run struct {
		first rune
		class uint8
	}
	var runs []run
	for line := range strings.Lines(unicodeText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		first, err := strconv.ParseUint(fields[0], 16, 32)
		if err != nil {
			panic(fmt.Sprintf("unicode.txt: %v", err)) // the file is part of the program
		}
		class := uint8(slices.Index(categoryNames, fields[1]))
		if len(fields) > 2 {
			class |= wordBit
		}
		runs = append(runs, run{rune(first), class})
	}
	c := &classes{}
	same := map[[256]uint8]*[256]uint8{}
	at := 0
	for i := range c {
		var page [256]uint8
		for j := range page {
			r := rune(i<<8 | j)
			for at+1 < len(runs) && runs[at+1].first <= r {
				at++
			}
			page[j] = runs[at].class
		}
		if same[page] == nil {
			same[page] = &page
		}
		c[i] = same[page]
	}
	return c
})

// goTables are Go's tables of the categories; substitutes are rare characters that Go and the engines have in
// the same one.
var goTables, substitutes = func() (tables []*unicode.RangeTable, chars []rune) {
	for _, name := range categoryNames {
		tables = append(tables, unicode.Categories[name])
	}
	return tables, []rune("\U00010400\U00010428\u1f88\U00016b40\U00010300\U00010a0f\U0001d165\u0488" +
		"\U000104a0\U00010341\U00010320\u203f\u1806\u0f3a\u0f3b\u2e02\u2e03" +
		"\U0001039f\U0001d6c1\U0001e2ff\U0001f3fb\U0001d100\u1680\u2028\u2029\u0080\U0001d173\ue000\ufffd\U0001fffe")
}()

// known returns r, or a character of the engines' category if Go has r in another one.
func known(r rune) rune {
	class := table().of(r) & category
	if unicode.Is(goTables[class], r) {
		return r
	}
	return substitutes[class]
}

// IsWord reports whether r matches Rust's \w: alphabetic, mark, decimal digit, connector or joiner.
func IsWord(r rune) bool { return table().of(r)&wordBit != 0 }
