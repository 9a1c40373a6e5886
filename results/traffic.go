package results

import (
	"cmp"
	"fmt"
	"slices"
)

// Traffic is how often each M is computed in serving: weights of distinct Ms, ascending. Only ratios of
// weights matter. A weight applies up to the next listed M; below the first and above the last there is no
// traffic.
type Traffic []Load

// Load is the weight of an M.
type Load struct {
	M      int     `json:"m"`
	Weight float64 `json:"weight"`
}

// MostWeight limits a weight so that sums stay finite and accurate.
const MostWeight = 1e15

// Weight returns the weight of m; 1 if there is no traffic data.
func (t Traffic) Weight(m int) float64 {
	if len(t) == 0 {
		return 1
	}
	at, listed := slices.BinarySearchFunc(t, m, func(l Load, m int) int { return cmp.Compare(l.M, m) })
	if listed {
		return t[at].Weight
	}
	if at == 0 || at == len(t) {
		return 0
	}
	return t[at-1].Weight
}

// Validate returns an error, or nil if valid.
func (t Traffic) Validate() error {
	some := len(t) == 0
	for i, l := range t {
		if l.M < 1 || l.M > MaxM {
			return fmt.Errorf("traffic: m%d, expected 1 to %d", l.M, MaxM)
		}
		if i > 0 && l.M <= t[i-1].M {
			return fmt.Errorf("traffic: m%d follows m%d, expected ascending Ms", l.M, t[i-1].M)
		}
		if !(l.Weight >= 0 && l.Weight <= MostWeight) {
			return fmt.Errorf("traffic: m%d has weight %g, expected 0 to %g", l.M, l.Weight, float64(MostWeight))
		}
		some = some || l.Weight > 0
	}
	if !some {
		return fmt.Errorf("traffic: every weight is 0")
	}
	return nil
}
