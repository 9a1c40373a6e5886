package fleet

import (
	"cmp"
	"math"
	"slices"

	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// speedWindow is the minimum number of samples per window, speedParts the number of windows of a long
	// run, speedLeast the minimum number of samples.
	speedWindow, speedParts, speedLeast = 16, 12, 64
	// speedNoise is the maximum random deviation of a window's mean, in standard errors, among some dozens of
	// windows.
	speedNoise = 3
	// speedStrays is the share trimmed at either end of a window, and at the far end of the distances between
	// samples.
	speedStrays = 0.1
)

// speeds are the distances of a run's time below and above its level, as logs, beyond its noise; 0 at
// constant speed.
type speeds struct{ faster, slower float64 }

// apart is the difference of the slowest from the fastest moments, as a share.
func (s speeds) apart() float64 { return math.Expm1(s.faster + s.slower) }

func (s speeds) both(o speeds) speeds {
	return speeds{math.Max(s.faster, o.faster), math.Max(s.slower, o.slower)}
}

// moment is a sample of a run: the log of its time over the baseline's.
type moment struct {
	seq int64
	off float64
}

func speedsOf(samples []moment) (s speeds) {
	n := len(samples)
	if n < speedLeast {
		return s
	}
	slices.SortFunc(samples, func(a, b moment) int { return cmp.Compare(a.seq, b.seq) })
	y, squares := make([]float64, n), make([]float64, n-1)
	for i, m := range samples {
		if y[i] = m.off; i > 0 {
			squares[i-1] = (y[i] - y[i-1]) * (y[i] - y[i-1])
		}
	}
	slices.Sort(squares)
	window := max(speedWindow, n/speedParts)
	noise := speedNoise * math.Sqrt(stats.Mean(squares[:n-1-int(speedStrays*float64(n-1))])/2/float64(window))
	var means []float64
	step := window / 4
	for from := 0; from+window <= n; from += step {
		w := slices.Clone(y[from : from+window])
		slices.Sort(w)
		strays := int(speedStrays * float64(window))
		means = append(means, stats.Mean(w[strays:window-strays]))
	}
	level := stats.Mean(means)
	for _, m := range means {
		s = s.both(speeds{level - m - noise, m - level - noise})
	}
	return s
}

// speeds are at the common clock and as observed. over is each case's distance above the baseline, NaN if
// that lacks it.
func (r reduced) speeds(run runs.Run, over []float64) (common, seen speeds) {
	at := map[caseKey]int{}
	for i, key := range r.keys {
		at[key] = i
	}
	var adjusted, raw []moment
	for _, series := range run.Series {
		if series.Key.Device != r.process.device {
			continue
		}
		for i := range series.Rows {
			row := &series.Rows[i]
			key := caseKey{series.Key, row.Case.M}
			key.series.Device = ""
			k, ok := at[key]
			if !ok || over[k] != over[k] {
				continue
			}
			o := &r.process.cases[k]
			for j := range row.Samples {
				x := &row.Samples[j]
				if !x.Usable() {
					continue
				}
				y := math.Log(x.US) - float64(o.seen) + over[k]
				raw = append(raw, moment{x.Seq, y})
				if o.clock > 0 && x.ClockMHz > 0 {
					y += float64(o.beta) * (math.Log(x.ClockMHz) - float64(o.clock))
				}
				adjusted = append(adjusted, moment{x.Seq, y})
			}
		}
	}
	return speedsOf(adjusted), speedsOf(raw)
}
