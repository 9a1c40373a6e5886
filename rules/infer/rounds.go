package infer

import (
	"fmt"
	"hash/fnv"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// fullRound is the least size of a full round, as a share of the largest round's rows; failures and
	// interruptions leave holes.
	fullRound = 0.9
	// controlRows is how many rows of a device are measured in every round,
	// whatever their verdict, but no more than controlShare of them.
	controlRows  = 40
	controlShare = 0.25
)

// Controls marks the control rows of a series whose device has that many rows in all. The choice is a hash of
// the row's identity. So a sweep and an audit make the same choice, and a larger run's control rows are among
// those of its shards.
func Controls(s results.Series, rows int) []bool {
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

// RowsByDevice counts the rows of all series by device id.
func RowsByDevice(series []results.Series) map[string]int {
	out := map[string]int{}
	for _, s := range series {
		out[s.Key.Device] += len(s.Rows)
	}
	return out
}
