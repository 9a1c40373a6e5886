package sweep

// lookGrowth is by how much the rounds grow from one look at the verdicts to the
// next. A look costs a share of the level of the tests, and rules take longer to
// judge than a round of few open cases takes to run: so looks are few. Between two of
// them a case gets at most half of its samples more than it needs.
const lookGrowth = 1.5

// Looks are the numbers of rounds after which a [Chooser] is asked: the screening
// rounds, then each time they have grown by half, always before the last round.
// Of 7 screening rounds and 35 rounds in all they are 7, 11, 17 and 26.
func Looks(screening, rounds int) []int {
	var out []int
	for n := max(1, screening); n < rounds; n = after(n) {
		out = append(out, n)
	}
	return out
}

// after is the look that follows the one after n rounds: n × 1.5, rounded up.
func after(n int) int { return int(float64(n)*lookGrowth + 0.5) }
