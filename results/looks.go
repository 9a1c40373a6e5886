package results

import "math"

// LookGrowth is the growth of the number of rounds from one look at the samples to the
// next. A look costs a share of the level of the tests, and to judge takes longer than a round of
// few open cases: so looks are few. Between two of them a case gets at most half of its samples
// more than it needs.
const LookGrowth = 1.5

// NextLook is the number of rounds at the look that follows the one after n rounds.
func NextLook(n int) int { return int(math.Ceil(float64(n) * LookGrowth)) }

// Looks are the numbers of rounds after which it is decided which cases get more of them:
// the screening rounds, then each time they have grown by half ([NextLook]), always before the
// last round. Of 7 screening rounds and 35 rounds in all they are 7, 11, 17 and 26.
func Looks(screening, rounds int) []int {
	var out []int
	for n := max(1, screening); n < rounds; n = NextLook(n) {
		out = append(out, n)
	}
	return out
}
