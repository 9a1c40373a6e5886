package fleet

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// spread estimates the means of cards, outliers among them, and the variances.
func (s *separation) spread(f *fitted) {
	f.means, f.centre = nans(s.cards), nans(s.sets)
	bySet := make([][]float64, s.sets)
	rest := func(i int) float64 { return s.levels[i].y - f.line.at(s.levels[i].hours) }
	var within []float64
	for _, c := range s.present {
		v := make([]float64, 0, len(s.of[c]))
		for _, i := range s.of[c] {
			v = append(v, rest(i))
		}
		m := median(v)
		f.means[c] = m
		if len(v) > 1 {
			// Corrects the bias of distances of n values from their own median.
			grown := math.Sqrt(float64(len(v)) / float64(len(v)-1))
			for _, x := range v {
				if x != m || len(v)%2 == 0 {
					within = append(within, math.Abs(x-m)*grown)
				}
			}
		}
	}
	apart := math.Inf(1)
	if len(within) > 0 {
		apart = strayProcess * math.Max(stats.MADFactor*median(within), usualProcesses)
	}
	var squares float64
	f.freedom = 0
	for _, c := range s.present {
		var v []float64
		for _, i := range s.of[c] {
			f.stray[i] = len(s.of[c]) > 2 && math.Abs(rest(i)-f.means[c]) > apart
			if !f.stray[i] {
				v = append(v, rest(i))
			}
		}
		if len(v) == 0 {
			continue
		}
		m := stats.Mean(v)
		f.means[c] = m
		if f.peer[c] {
			var together []float64
			for _, i := range s.of[c] {
				if !f.stray[i] && !s.levels[i].lone {
					together = append(together, rest(i))
				}
			}
			if len(together) > 1 {
				m := stats.Mean(together)
				for _, x := range together {
					squares += (x - m) * (x - m)
				}
				f.freedom += float64(len(together) - 1)
			}
		}
		set := s.levels[s.of[c][0]].peers
		bySet[set] = append(bySet[set], m)
	}
	f.process = math.Max((squares+priorProcesses*usualProcesses*usualProcesses)/(f.freedom+priorProcesses), leastDeviation*leastDeviation)
	for set, v := range bySet {
		if len(v) > 0 {
			f.centre[set] = median(v)
		}
	}
	var about []float64
	for _, c := range s.present {
		about = append(about, f.means[c]-f.centre[s.levels[s.of[c][0]].peers])
	}
	for i, far := range outliers(about) {
		f.peer[s.present[i]] = !far
	}
	f.between, _ = s.before.steadied(s.between(f))
	f.between = math.Max(f.between-f.process*s.meanInverse(f), leastDeviation*leastDeviation)
}

// steadied combines a variance with the prior, whose weight shrinks as the cards contradict it.
func (b belief) steadied(squares, freedom float64) (variance, all float64) {
	usual, prior := b.usual*b.usual, b.weight
	if freedom > 0 {
		ratio := math.Min(1, usual*freedom/squares)
		prior *= ratio * ratio
	}
	return (squares + prior*usual) / (freedom + prior), freedom + prior
}

// between is the sum of squares of the peers' means about the centers of their sets, which it sets, with its
// degrees of freedom.
func (s *separation) between(f *fitted) (squares, freedom float64) {
	f.peers = make([]float64, s.sets)
	sums := make([]float64, s.sets)
	for _, c := range s.present {
		if f.peer[c] {
			set := s.levels[s.of[c][0]].peers
			f.peers[set]++
			sums[set] += f.means[c]
		}
	}
	for set, n := range f.peers {
		if n > 0 {
			f.centre[set] = sums[set] / n
			freedom += n - 1
		}
	}
	for _, c := range s.present {
		if f.peer[c] {
			x := f.means[c] - f.centre[s.levels[s.of[c][0]].peers]
			squares += x * x
		}
	}
	return squares, freedom
}

// meanInverse is the mean of 1 over a peer's number of processes.
func (s *separation) meanInverse(f *fitted) float64 {
	sum, n := 0.0, 0.0
	for _, c := range s.present {
		if f.peer[c] {
			sum, n = sum+1/float64(s.kept(f, c)), n+1
		}
	}
	if n == 0 {
		return 1
	}
	return sum / n
}

// kept counts the processes of a card that are not outliers; at least 1.
func (s *separation) kept(f *fitted, card int) int {
	n := 0
	for _, i := range s.of[card] {
		if !f.stray[i] {
			n++
		}
	}
	return max(1, n)
}

// without is between without one peer, derived from between of all.
func (s *separation) without(f *fitted, card int, all, freedom float64) (float64, float64) {
	set := s.levels[s.of[card][0]].peers
	n := f.peers[set]
	if n < 2 {
		return all, freedom
	}
	x := f.means[card] - f.centre[set]
	return math.Max(0, all-x*x*n/(n-1)), freedom - 1
}
