package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules"
)

// Processes of two hosts within nearHours can always be compared. A room and its load have a daily rhythm.
const nearHours = 24

// timed is when a unit was measured: a host, or a card if there is one host.
type timed struct {
	hours float64
	unit  int
}

// alone reports for each time whether no other unit was measured within nearHours, or within the spread of
// the others. The fleet's drift is then unknown: a model term for it would depend on that unit alone, with
// its faults and clock errors.
func alone(times []timed) []bool {
	out := make([]bool, len(times))
	order := make([]int, len(times))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[a].hours, times[b].hours) })
	of := map[int][]int{} // indices in order, by unit
	for at, i := range order {
		of[times[i].unit] = append(of[times[i].unit], at)
	}
	if len(of) < 2 {
		return out
	}
	distance := make([]float64, len(times))
	for i := range distance {
		distance[i] = math.Inf(1)
	}
	// The nearest time of another unit is the previous one, or the last of another unit before that.
	sweep := func(at func(k int) int) {
		last, other := -1, -1 // indices of the latest, and of the latest of another unit
		for k := range order {
			i := order[at(k)]
			if last >= 0 && times[last].unit != times[i].unit {
				other = last
			}
			if other >= 0 {
				distance[i] = math.Min(distance[i], math.Abs(times[i].hours-times[other].hours))
			}
			last = i
		}
	}
	sweep(func(k int) int { return k })
	sweep(func(k int) int { return len(order) - 1 - k })
	for i := range times {
		if distance[i] <= nearHours {
			continue
		}
		mine := of[times[i].unit]
		quantile := func(q float64) float64 {
			at := int(q * float64(len(order)-len(mine)-1))
			for _, own := range mine { // ascending
				if own <= at {
					at++
				}
			}
			return times[order[at]].hours
		}
		// Twice the interquartile range covers a uniform spread, and a single unit with a wrong clock does
		// not stretch it.
		out[i] = distance[i] > 2*(quantile(0.75)-quantile(0.25))
	}
	return out
}

func (m *model) lone() []bool {
	times := make([]timed, len(m.processes))
	for p := range m.processes {
		times[p] = timed{m.hours(p), m.cards[m.cardOf[p]].host}
		if len(m.hosts) < 2 {
			times[p].unit = m.cardOf[p]
		}
	}
	return alone(times)
}

func (a *answers) aloneWarnings() (out []rules.Warning) {
	for p, lone := range a.lonely {
		if lone {
			out = append(out,
				rules.Warning{Subject: a.processes[p].path,
					Text: fmt.Sprintf("%s was measured while no other host was (%s), so it can't be separated from drift of the fleet, "+
						"and is excluded; check its clock",
						a.processes[p].device, when(a.processes[p].from).Format("2006-01-02 15:04"))})
		}
	}
	return out
}

// carried reports for each piece between knots whether the times of all but any one unit span half of it.
func (s *separation) carried(knots []float64) bool {
	const share = 0.5
	for k := 0; k+1 < len(knots); k++ {
		// The first and last time in the piece, each with the nearest of another unit.
		lo, hi := [2]timed{{math.Inf(1), -1}, {math.Inf(1), -1}}, [2]timed{{math.Inf(-1), -1}, {math.Inf(-1), -1}}
		units := map[int]bool{}
		for _, i := range s.used {
			t := timed{s.levels[i].hours, s.unit(i)}
			if t.hours < knots[k] || t.hours > knots[k+1] {
				continue
			}
			units[t.unit] = true
			keep(&lo, t, func(a, b float64) bool { return a < b })
			keep(&hi, t, func(a, b float64) bool { return a > b })
		}
		for unit := range units {
			first, last := lo[0], hi[0]
			if first.unit == unit {
				first = lo[1]
			}
			if last.unit == unit {
				last = hi[1]
			}
			if !(last.hours-first.hours >= share*(knots[k+1]-knots[k])) {
				return false
			}
		}
	}
	return true
}

func keep(best *[2]timed, t timed, better func(a, b float64) bool) {
	switch {
	case t.unit == best[0].unit || best[0].unit < 0:
		if better(t.hours, best[0].hours) {
			best[0] = t
		}
	case better(t.hours, best[0].hours):
		best[0], best[1] = t, best[0]
	case better(t.hours, best[1].hours):
		best[1] = t
	}
}
