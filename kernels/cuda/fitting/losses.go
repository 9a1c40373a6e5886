package fitting

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Close is the loss up to which a pick counts as the best: two candidates that are measured once more
// change places within that.
const Close = 0.01

// Losses tell what picks cost: their times over the fastest that were measured, less 1.
type Losses struct {
	Cases, Close int // of the cases, those whose loss is at most [Close]
	// Mean, P99 and Worst are of all cases; 99 of 100 cases lose at most P99.
	Mean, P99, Worst float64
}

// Share is the part of the cases whose loss is at most [Close].
func (l Losses) Share() float64 { return float64(l.Close) / float64(max(1, l.Cases)) }

// losses sums up.
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

// Picks are the losses of auto's picks in cases of one kind, with the constants of the start and with those fitted.
type Picks struct {
	Kind          string
	Before, After Losses
}

// pickBands are where ranges of rows of A begin.
var pickBands = []int{1, 17, 65, 512, 2048}

// picks are the losses of the groups that are held out, or of those that are not: of all, by rows of A and by type.
// The groups are cases of products, with all of their families.
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
