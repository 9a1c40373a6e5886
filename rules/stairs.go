package rules

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// tilePeriod is the largest distance in M between steps that counts as one tile; longer ones are waves.
const tilePeriod = 256

// stepRows is the least number of steps that show a period.
const stepRows = 3

type stairs struct {
	steps        []int // positions behind a step
	period, hits int   // see stepPeriod
}

// leastStep is the least share of the rate that a step costs.
const leastStep = 0.03

// allOctaves asks stairsOf for the steps of the whole series.
const allOctaves = -1

// stairsOf finds the steps of a series, all or around an octave of M, and caches them: rises of the time
// beyond the added work and beyond noise. It uses the envelope, which hides a bad choice at a single M.
func stairsOf(c *curve, octave int) *stairs {
	if s, ok := c.stairs[octave]; ok {
		return s
	}
	if c.stairs == nil {
		c.stairs = map[int]*stairs{}
	}
	s := &stairs{}
	c.stairs[octave] = s
	for i := 1; i < len(c.points); i++ {
		p, before := c.points[i], c.points[i-1]
		if octave != allOctaves && (2*p.m < 1<<octave || before.m > 3<<octave) {
			continue
		}
		if c.fall(i) > math.Max(4*math.Hypot(p.us.SE, before.us.SE), leastStep) {
			s.steps = append(s.steps, i)
		}
	}
	if len(s.steps) >= stepRows {
		s.period, s.hits = stepPeriod(c.points, s.steps)
	}
	return s
}

func (s *stairs) lastStep(point int) (int, bool) {
	at, _ := slices.BinarySearch(s.steps, point+1)
	if at == 0 {
		return 0, false
	}
	return s.steps[at-1], true
}

// tiled reports whether the tiles of the row or of its reference are known. Then the tiles predict the steps,
// and the times alone are not used.
func (w *witness) tiled() bool {
	_, own := w.curve.tileOf(w.row)
	_, old := w.curve.tileOf(w.reference)
	return own || old
}

// steps: if the tile is unknown, the times may show a staircase. The row is behind a step that accounts for
// its loss, and the steps of the series, or around its octave, are multiples of one period.
func (w *witness) steps() (Cause, string) {
	points := w.curve.points
	if w.reference.m > w.row.m {
		return "", fmt.Sprintf("%s is after the same steps", w.curve.name(w.reference.m))
	}
	why := "the time does not step up below this size"
	for _, octave := range []int{allOctaves, bits.Len(uint(w.row.m)) - 1} {
		s := stairsOf(w.curve, octave)
		step, ok := s.lastStep(w.c.worst.point)
		if !ok {
			continue
		}
		before, behind := points[step-1], points[step]
		e := w.curve.envelope()
		drop, rise := w.curve.fall(step), percent(math.Expm1(e[step]-e[step-1]))
		switch {
		case !w.explains(drop):
			w.stepLoss, w.stepWhy = drop, fmt.Sprintf("the time steps up by %s after %s", rise, w.curve.name(before.m))
			why = fmt.Sprintf("the last step below this size, after %s, costs %s", w.curve.name(before.m), percent(drop))
		case s.period == 0:
			why = fmt.Sprintf("the time steps up by %s after %s, and %s around it have no period", rise, w.curve.name(before.m),
				plural(len(s.steps), "step"))
		case (behind.m-1)/s.period == (before.m-1)/s.period:
			why = fmt.Sprintf("the time steps up by %s after %s, which is not a multiple of %d, unlike %d of %d steps", rise,
				w.curve.name(before.m), s.period, s.hits, len(s.steps))
		case w.tiled() && s.kind() == WaveQuantization:
			why = fmt.Sprintf("steps are at multiples of %d, where no wave starts", s.period)
		default:
			return s.kind(), fmt.Sprintf("time steps up by %s between %s and %s, and %d of %d steps are at multiples of %d",
				rise, w.curve.name(before.m), w.curve.name(behind.m), s.hits, len(s.steps), s.period)
		}
	}
	return "", why
}

// periodCandidates is how many periods are tried.
const periodCandidates = 1000

// stepPeriod finds the period whose multiples best match the steps. The score is the harmonic mean of the
// share of steps at a multiple and the share of multiples with a step. 0 if no period scores well.
func stepPeriod(points []point, steps []int) (period, hits int) {
	isStep := map[int]bool{}
	for _, i := range steps {
		isStep[i] = true
	}
	candidates := map[int]bool{}
	for _, i := range steps[:min(len(steps), 24)] {
		for p := points[i-1].m; p < points[i].m; p++ {
			if len(candidates) >= periodCandidates {
				break
			}
			candidates[p] = true
		}
	}
	for k := 1; k < min(len(steps), 64); k++ {
		candidates[points[steps[k]].m-points[steps[k-1]].m] = true
	}
	sorted := make([]int, 0, len(candidates))
	for p := range candidates {
		if p >= 2 {
			sorted = append(sorted, p)
		}
	}
	slices.Sort(sorted)
	best := 0.0
	first, last := steps[0], steps[len(steps)-1]
	for _, p := range sorted {
		hit, multiples := 0, 0
		for i := max(first, 1); i <= last; i++ {
			if (points[i].m-1)/p != (points[i-1].m-1)/p {
				multiples++
				if isStep[i] {
					hit++
				}
			}
		}
		if hit == 0 {
			continue
		}
		recall, precision := float64(hit)/float64(len(steps)), float64(hit)/float64(multiples)
		if score := 2 * recall * precision / (recall + precision); score > best+1e-9 || score > best-1e-9 && p < period {
			best, period, hits = score, p, hit
		}
	}
	if best < 0.7 || hits < stepRows {
		return 0, 0
	}
	return period, hits
}
