package regex

import (
	"cmp"
	"slices"
	"unicode"
)

// set is a set of code points: a class, an escape or a literal.
type set struct {
	ascii      [2]uint64 // members below 128
	categories uint32    // categories whose characters are members
	ranges     []span    // in order, apart
	negate     bool      // the set is the complement
	table      *classes
}

type span struct{ first, last rune }

var blanks = []span{{'\t', '\r'}, {' ', ' '}, {0x85, 0x85}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A},
	{0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}}

func newSet(categories uint32, ranges []span, negate bool) *set {
	s := &set{categories: categories, negate: negate, table: table()}
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for _, r := range ranges {
		if n := len(s.ranges); n > 0 && r.first <= s.ranges[n-1].last+1 {
			s.ranges[n-1].last = max(s.ranges[n-1].last, r.last)
		} else {
			s.ranges = append(s.ranges, r)
		}
	}
	for r := range rune(128) {
		if s.slow(r) {
			s.ascii[r>>6] |= 1 << (r & 63)
		}
	}
	return s
}

func (s *set) slow(r rune) bool {
	if s.categories>>(s.table.of(r)&category)&1 != 0 {
		return !s.negate
	}
	for _, c := range s.ranges {
		if r <= c.last {
			return (r >= c.first) != s.negate
		}
	}
	return s.negate
}

// others returns the complement of ranges, which must be sorted and disjoint.
func others(ranges []span) []span {
	var out []span
	next := rune(0)
	for _, r := range ranges {
		if r.first > next {
			out = append(out, span{next, r.first - 1})
		}
		next = r.last + 1
	}
	if next <= lastRune {
		out = append(out, span{next, lastRune})
	}
	return out
}

// folded adds the other cases of ASCII letters to ranges, including ſ for s and the Kelvin sign for k.
func folded(ranges []span) []span {
	out := slices.Clone(ranges)
	for _, s := range ranges {
		for r := s.first; r <= s.last; r++ {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				out = append(out, span{f, f})
			}
		}
	}
	return out
}
