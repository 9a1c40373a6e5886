package rules

import (
	"math"
	"strings"
	"testing"
)

// TestAlignmentPattern: a pattern is three slow rows or more, none a multiple of 8, with two multiples or more between the
// first and the last of them that account for half of the loss. What lies outside of them does not count.
func TestAlignmentPattern(t *testing.T) {
	const loss = 0.2
	for name, tc := range map[string]struct {
		ms     []int
		slow   []int // positions
		slower float64
		cause  Cause
		says   string
	}{
		"a pattern": {
			ms: []int{8, 9, 16, 17, 24, 25, 32}, slow: []int{1, 3, 5}, slower: 0.89, cause: Alignment,
			says: "all 3 slow rows from m9 to m25 are no multiples of 8, and the 2 multiples between them reach MFU 50.0 %",
		},
		"multiples at the ends": {
			ms: []int{8, 9, 16, 20, 21, 22, 24, 25, 32}, slow: []int{1, 3, 4, 5, 7}, slower: 0.89, cause: Alignment,
			says: "all 5 slow rows from m9 to m25 are no multiples of 8, and the 2 multiples between them reach MFU 50.0 %",
		},
		"two rows": {
			ms: []int{9, 16, 24, 25}, slow: []int{0, 3}, slower: 0.5,
			says: "2 rows that are no multiples of 8 show no pattern",
		},
		"a slow multiple": {
			ms: []int{9, 16, 17, 24, 25, 32}, slow: []int{0, 2, 3, 4}, slower: 0.5,
			says: "m24 is a multiple of 8",
		},
		"one multiple between": {
			ms: []int{8, 9, 16, 17, 25, 32}, slow: []int{1, 3, 4}, slower: 0.5,
			says: "the rows at 1 multiple of 8 between m9 and m25 are not enough faster",
		},
		"no multiple between": {
			ms: []int{8, 9, 10, 11, 16, 24}, slow: []int{1, 2, 3}, slower: 0.5,
			says: "the rows at 0 multiples of 8 between m9 and m11 are not enough faster",
		},
		"less than half of the loss": {
			ms: []int{8, 9, 16, 17, 24, 25, 32}, slow: []int{1, 3, 5}, slower: 0.91,
			says: "the rows at 2 multiples of 8 between m9 and m25 are not enough faster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &curve{peak: math.Log(1.6)}
			for _, m := range tc.ms {
				c.points = append(c.points, point{m: m, flops: math.Log(0.8)})
			}
			// Beyond the slow rows the product is ten times as fast.
			c.points[0].flops, c.points[len(c.points)-1].flops = math.Log(8), math.Log(8)
			suspect := &candidate{}
			for _, at := range tc.slow {
				c.points[at].flops = math.Log(0.8 * tc.slower)
				suspect.rows = append(suspect.rows, &judgement{curve: c, point: at})
			}
			w := &witness{c: suspect, curve: c, row: c.points[tc.slow[0]], loss: loss}
			if cause, why := w.alignment(); cause != tc.cause || !strings.Contains(why, tc.says) {
				t.Errorf("%q: %s; want %q: %s", cause, why, tc.cause, tc.says)
			}
		})
	}
}
