package rules

import (
	"fmt"
	"hash/fnv"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// roundRows is the least number of rows from which the common offset of a
	// round is taken.
	roundRows = 30
	// fullRound is the share of the rows of the largest round from which on a
	// round counts as one over all rows; failures and interruptions leave holes.
	fullRound = 0.9
	// controlRows is how many rows of a device are measured in every round,
	// whatever their verdict, but no more than controlShare of them; and
	// controlLeast how many of them a round must have to be compared with others.
	controlRows  = 40
	controlShare = 0.25
	controlLeast = 10
)

// roundOffsets is what all rows of a device had in common in each round: the
// median deviation of the round's samples from their rows' medians. Rounds are
// stretches of time, so this takes out what is slower than a round and needs
// no sentinel. y and round hold the samples of each row.
//
// Rounds for which rows were chosen are different. Their rows are the ones that
// looked slow before, and would look fast now by that alone: so only the control
// rows tell the offset, which are measured always. And a row's median is taken
// over the full rounds: over all, it would follow the chosen rounds where they
// are the majority and hide their offset.
func roundOffsets(y [][]float64, round [][]int, control []bool) map[int]float64 {
	count, most := map[int]int{}, 0
	for i := range round {
		for _, r := range round[i] {
			count[r]++
			most = max(most, count[r])
		}
	}
	full := func(r int) bool { return float64(count[r]) >= fullRound*float64(most) }
	deviations := map[int][]float64{}
	var scratch []float64
	for i := range y {
		scratch = scratch[:0]
		for j, v := range y[i] {
			if full(round[i][j]) {
				scratch = append(scratch, v)
			}
		}
		if len(scratch) < 3 {
			continue
		}
		centre := median(scratch)
		for j, v := range y[i] {
			if r := round[i][j]; full(r) || control[i] {
				deviations[r] = append(deviations[r], v-centre)
			}
		}
	}
	offsets := map[int]float64{}
	for r, d := range deviations {
		least := roundRows
		if !full(r) {
			least = controlLeast
		}
		if len(d) >= least {
			offsets[r] = selectMedian(d)
		}
	}
	return offsets
}

// controls says which rows of a series are control rows when its device has so
// many rows in all. The choice is by a hash of what the row is, so that a sweep
// and an audit agree on it without a word, and a larger run's are among those
// of its shards.
func controls(s results.Series, rows int) []bool {
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", s.Key)
	seed := h.Sum64()
	share := min(controlShare, controlRows/float64(max(rows, 1)))
	out := make([]bool, len(s.Rows))
	for i, r := range s.Rows {
		// The finaliser of SplitMix64 spreads neighbouring Ms evenly.
		x := seed + uint64(r.Case.M)*0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
		out[i] = float64(x>>11)/(1<<53) < share
	}
	return out
}

// rowsByDevice counts all rows of each device.
func rowsByDevice(series []results.Series) map[string]int {
	out := map[string]int{}
	for _, s := range series {
		out[s.Key.Device] += len(s.Rows)
	}
	return out
}
