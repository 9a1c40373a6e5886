package fitting

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Close is the maximum loss of a pick that counts as the best. Two candidates within it change order in
// repeated measurements.
const Close = 0.01

// Losses are the costs of picks: their times over the fastest measured, less 1.
type Losses struct {
	Cases, Close int // Close counts cases with a loss of at most [Close]
	// Mean, P99 and Worst cover all cases; P99 is the 99th percentile.
	Mean, P99, Worst float64
}

// Share returns the fraction of cases with a loss of at most [Close].
func (l Losses) Share() float64 { return float64(l.Close) / float64(max(1, l.Cases)) }

func losses(all []float64) Losses {
	if len(all) == 0 {
		return Losses{}
	}
	s := slices.Sorted(slices.Values(all))
	l := Losses{Cases: len(s), P99: s[(99*len(s)+99)/100-1], Worst: s[len(s)-1]}
	for _, x := range s {
		l.Mean += x / float64(len(s))
		if x <= Close {
			l.Close++
		}
	}
	return l
}

// Picks are the losses of auto's picks in cases of one kind, with start and fitted constants.
type Picks struct {
	Kind          string
	Before, After Losses
}

var pickBands = []int{1, 17, 65, 512, 2048}

// picks returns the losses of held-out groups, or of the others: in total, by rows of A and by type.
func picks(groups []*group, before, after []expectation, held bool) []Picks {
	kind := func(name string, of func(*group) bool) Picks {
		var was, is []float64
		for i, g := range groups {
			if g.held == held && of(g) {
				was, is = append(was, math.Expm1(g.regret(before[i]))), append(is, math.Expm1(g.regret(after[i])))
			}
		}
		return Picks{name, losses(was), losses(is)}
	}
	all := []Picks{kind("all", func(*group) bool { return true })}
	for i, low := range pickBands {
		name, end := fmt.Sprintf("m %d and up", low), math.MaxInt
		if i+1 < len(pickBands) {
			end = pickBands[i+1]
			name = fmt.Sprintf("m %d to %d", low, end-1)
		}
		all = append(all, kind(name, func(g *group) bool { return g.c.M >= low && g.c.M < end }))
	}
	for _, d := range kernels.DTypes() {
		all = append(all, kind(string(d), func(g *group) bool { return g.c.DType == d }))
	}
	return slices.DeleteFunc(all, func(p Picks) bool { return p.Before.Cases == 0 })
}
