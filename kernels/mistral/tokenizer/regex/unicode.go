package regex

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// unicodeText has the class of every code point, see scripts/make_tokenizer_unicode.py.
//
//go:embed unicode.txt
var unicodeText string

// The general categories in the order of their bits in a mask. Cn is unassigned.
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
		class := uint8(categoryBit(fields[1]))
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

func categoryBit(name string) int {
	for i, n := range categoryNames {
		if n == name {
			return i
		}
	}
	return -1
}

// categoryMask returns the bits of the categories named by one or two letters, 0 if unknown.
func categoryMask(name string) uint32 {
	mask := uint32(0)
	for i, n := range categoryNames {
		if n == name || n[:1] == name {
			mask |= 1 << i
		}
	}
	return mask
}

// IsWord reports whether r matches Rust's \w: alphabetic, mark, decimal digit, connector or joiner.
func IsWord(r rune) bool { return table().of(r)&wordBit != 0 }
