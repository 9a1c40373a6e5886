package trust

import (
	"math"
	"math/rand/v2"
)

// DataKind is a kind of noise in imported data: samples of a flat curve. No simulated machine has it, since
// no sweep takes samples this way.
type DataKind struct {
	Name string `json:"name"`
	// Means describes it in a few words.
	Means string `json:"means"`

	rounds int
	// nil shuffles each round.
	order func(*rand.Rand, int) []taken
	noise []effect
	// step is the timer's resolution in microseconds, 0 for a fine one.
	step float64
	// along puts the rows on a curve along N: each is a series with one M.
	along bool
}

type card struct{ rows []float64 }

// taken is one sample, with the log of its time over the true one.
type taken struct {
	row, round int
	off        float64
	disturbed  bool
}

// effect adds to the logs of times. of holds the properties common to a card's runs; second is true for the second of two runs.
type effect func(r *rand.Rand, s []taken, of card, second bool)

const dataRows, dataRounds = 60, 9

// usual noise adds to the levels and delays of a kind.
var usual = gauss(0.004)

func dataKind(name, means string, noise ...effect) DataKind {
	return DataKind{Name: name, Means: means, noise: noise}
}

func (k DataKind) in(order func(*rand.Rand, int) []taken) DataKind { k.order = order; return k }

func (k DataKind) once() DataKind { k.rounds = 1; return k }

// DataKinds lists the kinds of noise of data sets, in print order.
func DataKinds() []DataKind {
	coarse := dataKind("coarse-timer", "a timer with a step of 5 us, at 21 us and more", usual)
	coarse.step = 5
	columns := dataKind("along-n", "normal noise of 1 %, of products with one M and as many N", gauss(0.01))
	columns.along = true
	return []DataKind{
		dataKind("normal1", "normal noise of 1 %", gauss(0.01)),
		dataKind("normal3", "normal noise of 3 %", gauss(0.03)),
		columns,
		dataKind("two-levels", "bimodal samples, 10 % apart", usual, levels(0.10, 0.5)),
		dataKind("far-levels", "bimodal, 30 % apart, 70 % of the samples in the slower mode", usual, levels(0.30, 0.7)),
		dataKind("rare-levels", "bimodal, 30 % apart, 30 % of the samples in the slower mode", usual, levels(0.30, 0.3)),
		dataKind("noisy-rows", "1 row in 6 has noise of 8 %, the others 0.2 %", func(r *rand.Rand, s []taken, of card, _ bool) {
			for i := range s {
				sigma := 0.002
				if of.rows[s[i].row] < 1.0/6 {
					sigma = 0.08
				}
				s[i].off += sigma * r.NormFloat64()
			}
		}),
		dataKind("delayed-rows", "a third of the rows is delayed by 10 % on average", usual,
			func(r *rand.Rand, s []taken, of card, _ bool) {
				for i := range s {
					if of.rows[s[i].row] < 1.0/3 {
						s[i].off += 0.1 * r.ExpFloat64()
					}
				}
			}),
		coarse,
		dataKind("by-case",
			"one case after the other in random order, while the machine is 12 % slower for a third to two thirds of the time", usual,
			spell).in(byCase),
		dataKind("by-case-walk", "the same, with drift", usual, wander).in(byCase),
		dataKind("two-batches", "every second case measured in a separate batch, 10 % slower", usual, slower(0.5, 1, 0.1)).in(halves),
		dataKind("sawtooth", "rounds in order of M; the machine slows down by 10 % in each", usual,
			func(_ *rand.Rand, s []taken, _ card, _ bool) {
				for i := range s {
					s[i].off += 0.1 * float64(i%dataRows) / dataRows
				}
			}).in(ascending),
		dataKind("slow-start", "one case after the other in order of M, while the machine is 15 % slower at first",
			usual, slower(0, 1.0/3, 0.15)).in(inOrder),
		dataKind("wander", "the speed of the machine drifts by 2.5 %, with a correlation of 0.97 from sample to sample", usual, wander),
		dataKind("round-levels", "bimodal rounds, 14 % apart", usual, func(r *rand.Rand, s []taken, _ card, _ bool) {
			var slow [dataRounds]bool
			for k := range slow {
				slow[k] = r.Float64() < 0.4
			}
			for i := range s {
				if slow[s[i].round] {
					s[i].off += 0.14
				}
			}
		}),
		dataKind("slow-spell", "the machine is 12 % slower for a third to two thirds of the time", usual, spell),
		dataKind("neighbour", "other load during the second of two runs: 88 % of its samples are disturbed, and 6 % slower on average",
			usual, func(r *rand.Rand, s []taken, _ card, second bool) {
				for i := range s {
					if second && r.Float64() < 0.88 {
						s[i].off, s[i].disturbed = s[i].off+0.06*(0.5+0.5*r.ExpFloat64()), true
					}
				}
			}),
		dataKind("process", "each process is 0.7 % off; noise of 0.3 %", gauss(0.003), func(r *rand.Rand, s []taken, _ card, _ bool) {
			slower(0, 1, 0.007*r.NormFloat64())(r, s, card{}, false)
		}),
		dataKind("single-levels", "one bimodal sample per row, 10 % apart", usual, levels(0.10, 0.5)).once(),
		dataKind("single-flips", "one sample per row, 1 in 5 of them 30 % slower", usual, levels(0.30, 0.2)).once(),
	}
}

func gauss(sigma float64) effect {
	return func(r *rand.Rand, s []taken, _ card, _ bool) {
		for i := range s {
			s[i].off += sigma * r.NormFloat64()
		}
	}
}

// slower makes the samples of a part of the run, in shares of its samples, slower in log time.
func slower(from, to, by float64) effect {
	return func(_ *rand.Rand, s []taken, _ card, _ bool) {
		n := float64(len(s))
		for i := int(from * n); i < int(to*n); i++ {
			s[i].off += by
		}
	}
}

// levels puts the share slow of the samples on a level that is gap slower.
func levels(gap, slow float64) effect {
	return func(r *rand.Rand, s []taken, _ card, _ bool) {
		for i := range s {
			if r.Float64() < slow {
				s[i].off += math.Log1p(gap)
			}
		}
	}
}

// The machine is 12 % slower for a third to two thirds of the run.
func spell(r *rand.Rand, s []taken, _ card, _ bool) {
	n := float64(len(s))
	length := (1 + r.Float64()) / 3
	from := int(n * r.Float64() * (1 - length))
	for i := from; i < from+int(n*length); i++ {
		s[i].off += 0.12
	}
}

// The pace of the machine has a standard deviation of 2.5 % and a correlation of 0.97 from sample to sample.
func wander(r *rand.Rand, s []taken, _ card, _ bool) {
	const keep, sigma = 0.97, 0.025
	pace := sigma * r.NormFloat64()
	for i := range s {
		s[i].off += pace
		pace = keep*pace + math.Sqrt(1-keep*keep)*sigma*r.NormFloat64()
	}
}

// inRounds takes each of the rows once a round.
func inRounds(rounds int, rows func() []int) (out []taken) {
	for round := range rounds {
		for _, row := range rows() {
			out = append(out, taken{row: row, round: round})
		}
	}
	return out
}

func shuffled(r *rand.Rand, rounds int) []taken {
	return inRounds(rounds, func() []int { return r.Perm(dataRows) })
}

func ascending(_ *rand.Rand, rounds int) []taken { return inRounds(rounds, rowsInOrder) }

func halves(r *rand.Rand, rounds int) (out []taken) {
	for half := range 2 {
		out = append(out, inRounds(rounds, func() []int {
			rows := r.Perm(dataRows / 2)
			for i := range rows {
				rows[i] = 2*rows[i] + half
			}
			return rows
		})...)
	}
	return out
}

// inTurn takes all samples of a row before those of the next.
func inTurn(rows []int, rounds int) (out []taken) {
	for _, row := range rows {
		out = append(out, inRounds(rounds, func() []int { return []int{row} })...)
	}
	return out
}

func byCase(r *rand.Rand, rounds int) []taken { return inTurn(r.Perm(dataRows), rounds) }

func inOrder(_ *rand.Rand, rounds int) []taken { return inTurn(rowsInOrder(), rounds) }

func rowsInOrder() []int {
	rows := make([]int, dataRows)
	for i := range rows {
		rows[i] = i
	}
	return rows
}
