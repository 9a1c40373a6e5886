package infer

import (
	"math"
	"slices"
	"sort"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Envelope is the least log time at each point over all points with at least as many rows. It removes spikes
// of a bad choice and keeps cliffs.
func (c *Curve) Envelope() []float64 {
	if c.least == nil {
		c.least = make([]float64, len(c.Points))
		least := math.Inf(1)
		for i := len(c.Points) - 1; i >= 0; i-- {
			least = math.Min(least, c.Points[i].US.Y)
			c.least[i] = least
		}
	}
	return c.least
}

// Fall is the share of the rate that is lost from point i−1 to i, by the envelope.
func (c *Curve) Fall(i int) float64 {
	e := c.Envelope()
	return stats.Lost((c.Points[i].Flops - e[i]) - (c.Points[i-1].Flops - e[i-1]))
}

// Around is the largest share of the rate that is lost across the first point above m, within one grid step
// on either side. from and to are the points before and after the loss.
func (c *Curve) Around(m int) (fall float64, from, to int) {
	e := c.Envelope()
	i := sort.Search(len(c.Points), func(i int) bool { return c.Points[i].M > m })
	if i == 0 || i == len(c.Points) {
		return 0, -1, -1
	}
	fall = math.Inf(-1)
	for _, f := range []int{i - 1, i - 2} {
		for _, t := range []int{i, i + 1} {
			if f < 0 || t >= len(c.Points) || t-f > 2 {
				continue
			}
			if v := stats.Lost((c.Points[t].Flops - e[t]) - (c.Points[f].Flops - e[f])); v > fall {
				fall, from, to = v, f, t
			}
		}
	}
	return fall, from, to
}

// Steepest is the point after from, up to to, before which the largest share of the rate is lost, and that
// share; at is -1 if the rate never falls.
func (c *Curve) Steepest(from, to int) (at int, fall float64) {
	at, fall = -1, 0
	for i := max(from, 0) + 1; i <= to; i++ {
		if v := c.Fall(i); v > fall {
			at, fall = i, v
		}
	}
	return at, fall
}

// smallStep is the least share of the rate that a step between such waves costs.
const smallStep = 0.01

// IsStep reports whether the time steps up from point i-1 to i, beyond noise and by a share that matters.
func (c *Curve) IsStep(i int) bool {
	return c.Fall(i) > math.Max(Clearly*math.Hypot(c.Points[i].US.SE, c.Points[i-1].US.SE), smallStep)
}

// stepRows is the least number of steps that show a period.
const stepRows = 3

// Stairs are the steps in the times of a curve, and the period of M that most of them keep.
type Stairs struct {
	Steps        []int // positions behind a step
	Period, Hits int   // see stepPeriod
}

// leastStep is the least share of the rate that a step costs.
const leastStep = 0.03

// AllOctaves asks StairsOf for the steps of the whole series.
const AllOctaves = -1

// StairsOf finds the steps of a series, all or around an octave of M, and caches them: rises of the time
// beyond the added work and beyond noise. It uses the envelope, which hides a bad choice at a single M.
func StairsOf(c *Curve, octave int) *Stairs {
	if s, ok := c.stairs[octave]; ok {
		return s
	}
	if c.stairs == nil {
		c.stairs = map[int]*Stairs{}
	}
	s := &Stairs{}
	c.stairs[octave] = s
	for i := 1; i < len(c.Points); i++ {
		p, before := c.Points[i], c.Points[i-1]
		if octave != AllOctaves && (2*p.M < 1<<octave || before.M > 3<<octave) {
			continue
		}
		if c.Fall(i) > math.Max(4*math.Hypot(p.US.SE, before.US.SE), leastStep) {
			s.Steps = append(s.Steps, i)
		}
	}
	if len(s.Steps) >= stepRows {
		s.Period, s.Hits = stepPeriod(c.Points, s.Steps)
	}
	return s
}

// LastStep is the last step up to a point; false if there is none.
func (s *Stairs) LastStep(point int) (int, bool) {
	at, _ := slices.BinarySearch(s.Steps, point+1)
	if at == 0 {
		return 0, false
	}
	return s.Steps[at-1], true
}

// periodCandidates is how many periods are tried.
const periodCandidates = 1000

// stepPeriod finds the period whose multiples best match the steps. The score is the harmonic mean of the
// share of steps at a multiple and the share of multiples with a step. 0 if no period scores well.
func stepPeriod(points []Point, steps []int) (period, hits int) {
	isStep := map[int]bool{}
	for _, i := range steps {
		isStep[i] = true
	}
	candidates := map[int]bool{}
	for _, i := range steps[:min(len(steps), 24)] {
		for p := points[i-1].M; p < points[i].M; p++ {
			if len(candidates) >= periodCandidates {
				break
			}
			candidates[p] = true
		}
	}
	for k := 1; k < min(len(steps), 64); k++ {
		candidates[points[steps[k]].M-points[steps[k-1]].M] = true
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
			if (points[i].M-1)/p != (points[i-1].M-1)/p {
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
