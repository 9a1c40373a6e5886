package sweep

import "github.com/gemmaudit/gemmaudit/rules"

// Looks are the numbers of rounds after which a [Chooser] is asked: the screening
// rounds, then each time they have grown by half ([rules.NextLook]), always before the last
// round. Of 7 screening rounds and 35 rounds in all they are 7, 11, 17 and 26.
func Looks(screening, rounds int) []int {
	var out []int
	for n := max(1, screening); n < rounds; n = rules.NextLook(n) {
		out = append(out, n)
	}
	return out
}
