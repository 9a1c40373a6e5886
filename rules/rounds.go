package rules

import (
	"fmt"
	"hash/fnv"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// fullRound is the share of the rows of the largest round from which on a
	// round counts as one over all rows; failures and interruptions leave holes.
	fullRound = 0.9
	// controlRows is how many rows of a device are measured in every round,
	// whatever their verdict, but no more than controlShare of them.
	controlRows  = 40
	controlShare = 0.25
)

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
		out[i] = uniform(seed, r.Case.M) < share
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
