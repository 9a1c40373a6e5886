package results

import "math"

// LookGrowth is the growth factor of rounds between looks at the samples. Each look costs part of the tests'
// significance level, and a verdict takes longer than a round of few open cases, so looks are few. A case
// gets at most half more samples than it needs.
const LookGrowth = 1.5

// NextLook returns the rounds at the look after n rounds.
func NextLook(n int) int { return int(math.Ceil(float64(n) * LookGrowth)) }

// Looks returns the numbers of rounds after which cases that need more are selected: the screening rounds,
// then each growth by half ([NextLook]), all before the last round. For 7 screening rounds of 35 they are 7,
// 11, 17 and 26.
func Looks(screening, rounds int) []int {
	var out []int
	for n := max(1, screening); n < rounds; n = NextLook(n) {
		out = append(out, n)
	}
	return out
}
