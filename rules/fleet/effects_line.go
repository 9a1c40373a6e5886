package fleet

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

func (s *separation) span() (first, last float64) {
	first, last = math.Inf(1), math.Inf(-1)
	for _, i := range s.used {
		first, last = math.Min(first, s.levels[i].hours), math.Max(last, s.levels[i].hours)
	}
	return first, last
}

// The segments have equal numbers of processes.
func (s *separation) knots(segments int) []float64 {
	var t []float64
	for _, i := range s.used {
		t = append(t, s.levels[i].hours)
	}
	slices.Sort(t)
	var out []float64
	for k := 0; k <= segments; k++ {
		at := t[k*(len(t)-1)/segments]
		if len(out) == 0 || at > out[len(out)-1] {
			out = append(out, at)
		}
	}
	return out
}

// line is a continuous piecewise linear function, by its slopes.
type line struct {
	knots, slopes []float64
}

// terms are the factors of the slopes at a time.
func terms(knots []float64, hours float64, to []float64) []float64 {
	to = to[:0]
	for k := 0; k+1 < len(knots); k++ {
		to = append(to, math.Max(0, math.Min(hours, knots[k+1])-knots[k]))
	}
	return to
}

func (l line) at(hours float64) float64 {
	sum := 0.0
	for k, x := range terms(l.knots, hours, nil) {
		sum += l.slopes[k] * x
	}
	return sum
}

type fitted struct {
	line    line
	cost    float64   // Bayesian information criterion: smaller is better
	centre  []float64 // by set of peers, without the line: the mean of its peers
	peers   []float64 // by set, the number of cards that count as peers
	means   []float64 // by card, without the line; NaN if it has none
	peer    []bool
	process float64 // variance between processes
	freedom float64 // of it
	stray   []bool  // by level
	between float64
}

const fitRounds = 4

// fit fits a line with given knots by generalized least squares. Differences between processes on one card
// get more weight, since they vary less than cards. Outliers are ignored.
func (s *separation) fit(knots []float64) *fitted {
	f := &fitted{line: line{knots: knots, slopes: make([]float64, max(0, len(knots)-1))}, peer: make([]bool, s.cards),
		stray: make([]bool, len(s.levels))}
	for _, c := range s.present {
		f.peer[c] = true
	}
	f.process, f.between = usualProcesses*usualProcesses, s.before.usual*s.before.usual
	for range fitRounds {
		if len(f.line.slopes) > 0 {
			s.slopes(f)
		}
		s.spread(f)
		if len(f.line.slopes) == 0 && f.freedom == 0 {
			break
		}
	}
	f.cost = s.cost(f)
	return f
}

func (s *separation) slopes(f *fitted) {
	k := len(f.line.slopes)
	normal, right := mat.NewSymDense(k, nil), mat.NewVecDense(k, nil)
	add := func(x []float64, y, weight float64) {
		for a := range k {
			right.SetVec(a, right.AtVec(a)+weight*x[a]*y)
			for b := a; b < k; b++ {
				normal.SetSym(a, b, normal.At(a, b)+weight*x[a]*x[b])
			}
		}
	}
	type cardMean struct {
		set       int
		x         []float64
		y, weight float64
	}
	var means []cardMean
	sumW := make([]float64, s.sets)
	sumX, sumY := make([][]float64, s.sets), make([]float64, s.sets)
	for i := range sumX {
		sumX[i] = make([]float64, k)
	}
	var x []float64
	diff := make([]float64, k)
	for _, c := range s.present {
		m := cardMean{x: make([]float64, k)}
		n := 0.0
		for _, i := range s.of[c] {
			if f.stray[i] {
				continue
			}
			l := s.levels[i]
			m.set = l.peers
			x = terms(f.line.knots, l.hours, x)
			for a := range k {
				m.x[a] += x[a]
			}
			m.y, n = m.y+l.y, n+1
		}
		if n == 0 {
			continue
		}
		for a := range k {
			m.x[a] /= n
		}
		m.y /= n
		for _, i := range s.of[c] {
			if f.stray[i] {
				continue
			}
			x = terms(f.line.knots, s.levels[i].hours, x)
			for a := range k {
				diff[a] = x[a] - m.x[a]
			}
			add(diff, s.levels[i].y-m.y, 1/f.process)
		}
		if f.peer[c] {
			m.weight = 1 / (f.between + f.process/n)
			means = append(means, m)
			sumW[m.set] += m.weight
			sumY[m.set] += m.weight * m.y
			for a := range k {
				sumX[m.set][a] += m.weight * m.x[a]
			}
		}
	}
	for _, m := range means {
		for a := range k {
			diff[a] = m.x[a] - sumX[m.set][a]/sumW[m.set]
		}
		add(diff, m.y-sumY[m.set]/sumW[m.set], m.weight)
	}
	// A piece without information from any card is flat.
	for a := range k {
		normal.SetSym(a, a, normal.At(a, a)*(1+1e-9)+1e-9)
	}
	var chol mat.Cholesky
	if !chol.Factorize(normal) {
		return
	}
	var b mat.VecDense
	if chol.SolveVecTo(&b, right) != nil {
		return
	}
	for a := range k {
		f.line.slopes[a] = b.AtVec(a)
	}
}

// An outlier costs as much as a value at the bound, so a line gains no advantage from excluding cards.
func (s *separation) cost(f *fitted) float64 {
	const bound = 9
	sum, rows := 0.0, 0.0
	for _, c := range s.present {
		n := float64(s.kept(f, c))
		v := f.between + f.process/n
		x := f.means[c] - f.centre[s.levels[s.of[c][0]].peers]
		sum += math.Min(x*x/v, bound) + math.Log(v)
		rows++
		for _, i := range s.of[c] {
			r := s.levels[i].y - f.line.at(s.levels[i].hours) - f.means[c]
			sum += math.Min(r*r/f.process, bound)
		}
		sum += (n - 1) * math.Log(f.process)
		rows += n - 1
	}
	return sum + float64(len(f.line.slopes))*math.Log(rows)
}

func (s *separation) middleHour() float64 {
	var t []float64
	for _, i := range s.used {
		t = append(t, s.levels[i].hours)
	}
	return median(t)
}
