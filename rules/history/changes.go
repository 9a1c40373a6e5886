package history

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// E-divisive, as used by Apache Otava, permutes the runs and so assumes independence. But neighboring runs
// are correlated, since they share days and machine states. Instead, a Viterbi path over levels minimizes a
// loss bounded for outliers (Fearnhead and Rigaill 2019). Each step is tested with the correlation of
// neighbors in its error.
const (
	// Beyond strayBound standard deviations a run is an outlier and costs no more.
	strayBound = 3.5
	// stepPrice is in squared standard deviations. It is low, since the tests remove excess steps.
	stepPrice = 14
	// Two similar outliers are no level.
	leastRuns = 3
	// usualCorrelation is the prior correlation of neighboring runs, and correlationSpread its deviation. 60
	// runs estimate it to 0.11, so their estimate gets almost half of the weight. With a wider prior,
	// histories with correlated neighbors by chance hide steps, and hardly fewer false steps are found.
	usualCorrelation, correlationSpread = 0.5, 0.1
	leastCorrelation, mostCorrelation   = 0, 0.9
	// sureStep, in standard deviations, is found in 99 of 100 simulated histories of 60 runs.
	sureStep = 6
	// leastNoise is the smallest accepted standard deviation, as a share of time.
	leastNoise = 0.001
	// usualStrays is the prior share of outliers, with the weight of strayWeight runs.
	usualStrays, strayWeight = 0.1, 60
	// endPlaces is the number of possible outlier levels at the ends of a history: one per short length.
	endPlaces = 10
	// alike is the probability that an outlier is as slow as another.
	alike = 0.25
	// scatterWorth is the information of runs without outliers on their scatter, relative to Gaussian ones.
	// It keeps unchanged histories of 50 cases within their level.
	scatterWorth = 0.6
	mostLevels   = 1000
)

// LeastRuns is the minimum length of a history for estimating its noise.
const LeastRuns = 10

type step struct {
	at int // first run of the new level
	// log is the log of the ratio of levels, se its standard error, p the p-value that there is no step at
	// any run.
	from, log, se, p float64
}

// noiseOf is the noise of log times about their levels, partly common to neighbors.
type noiseOf struct {
	sd, correlation float64
	strays          float64 // the share of outliers among runs
}

// Each step has a p-value of at most level.
func steps(y []float64, level float64) []step {
	if len(y) < LeastRuns {
		return nil
	}
	ends := path(y, firstNoise(y))
	ends = withoutShort(y, ends)
	settle(y, ends, firstNoise(y))
	for {
		noise := noiseAbout(y, ends)
		found := make([]step, len(ends)-1)
		worst := -1
		for i := range found {
			found[i] = test(y, ends, i, noise)
			if found[i].p > level && (worst < 0 || found[i].p > found[worst].p) {
				worst = i
			}
		}
		if worst < 0 {
			return found
		}
		ends = slices.Delete(ends, worst, worst+1)
		settle(y, ends, noise.sd) // restores ends that a short level displaced
	}
}

func settle(y []float64, ends []int, sd float64) {
	for i := range len(ends) - 1 {
		ends[i] = bestSplit(y, begin(ends, i), ends[i+1], ends[i], sd)
	}
}

func begin(ends []int, i int) int {
	if i == 0 {
		return 0
	}
	return ends[i-1]
}

// firstNoise uses differences of neighbors, which steps and a few outliers do not affect. It assumes a
// correlation of one half.
func firstNoise(y []float64) float64 {
	d := make([]float64, len(y)-1)
	for i := range d {
		d[i] = math.Abs(y[i+1] - y[i])
	}
	return math.Max(leastNoise, stats.MADFactor*stats.Median(d)) // 1/√2 for two runs, 1/√(1-0.5) for their correlation
}

// path returns the ends of the levels of the cheapest path.
func path(y []float64, sd float64) []int {
	lo, hi := slices.Min(y), slices.Max(y)
	spacing := math.Max(sd/2, (hi-lo)/(mostLevels-1))
	levels := int((hi-lo)/spacing) + 2
	cost := make([]float64, levels)
	from := make([][]int32, len(y)) // by run and level, the level before
	for t, v := range y {
		best := 0
		for l, c := range cost {
			if c < cost[best] {
				best = l
			}
		}
		least := cost[best]
		from[t] = make([]int32, levels)
		for l := range cost {
			from[t][l] = int32(l)
			if t > 0 && least+stepPrice < cost[l] {
				cost[l], from[t][l] = least+stepPrice, int32(best)
			}
			cost[l] += loss(v-lo-float64(l)*spacing, sd)
		}
	}
	at := 0
	for l, c := range cost {
		if c < cost[at] {
			at = l
		}
	}
	ends := []int{len(y)}
	for t := len(y) - 1; t > 0; t-- {
		if before := int(from[t][at]); before != at {
			ends = append(ends, t)
			at = before
		}
	}
	slices.Reverse(ends)
	return ends
}

func loss(r, sd float64) float64 {
	r /= sd
	return math.Min(r*r, strayBound*strayBound)
}

func withoutShort(y []float64, ends []int) []int {
	for len(ends) > 1 {
		short := -1
		for i := range ends {
			if n := ends[i] - begin(ends, i); n < leastRuns && (short < 0 || n < ends[short]-begin(ends, short)) {
				short = i
			}
		}
		if short < 0 {
			return ends
		}
		of := func(i int) float64 { return stats.Median(y[begin(ends, i):ends[i]]) }
		drop := short
		if short == len(ends)-1 || short > 0 && math.Abs(of(short-1)-of(short)) < math.Abs(of(short+1)-of(short)) {
			drop = short - 1
		}
		ends = slices.Delete(ends, drop, drop+1)
	}
	return ends
}

// centre is the mean of the runs within the outlier bound, and their number.
func centre(y []float64, sd float64) (level float64, runs int) {
	level = stats.Median(y)
	for range 5 {
		sum, n := 0.0, 0
		for _, v := range y {
			if math.Abs(v-level) <= strayBound*sd {
				sum, n = sum+v, n+1
			}
		}
		if n == 0 {
			return level, 1
		}
		next := sum / float64(n)
		if runs = n; next == level {
			break
		}
		level = next
	}
	return level, runs
}

func noiseAbout(y []float64, ends []int) noiseOf {
	sd := firstNoise(y)
	residual := make([]float64, len(y))
	var correlation float64
	for range 3 {
		absolute := make([]float64, len(y))
		for i := range ends {
			a, b := begin(ends, i), ends[i]
			level, _ := centre(y[a:b], sd)
			for k := a; k < b; k++ {
				residual[k] = y[k] - level
				absolute[k] = math.Abs(residual[k])
			}
		}
		free := float64(len(y)) / math.Max(1, float64(len(y)-len(ends)))
		sd = math.Max(leastNoise, stats.MADFactor*stats.Median(absolute)*math.Sqrt(free))
	}
	strays, kept, about := usualStrays*strayWeight, 0, 0.0
	for _, r := range residual {
		if math.Abs(r) > strayBound*sd {
			strays++
		} else {
			kept, about = kept+1, about+r*r
		}
	}
	// The median deviation identifies outliers; the others estimate the scatter better.
	sd = math.Max(leastNoise, math.Sqrt(about/math.Max(1, float64(kept-len(ends)))))
	var both, squares float64
	pairs := 0
	for i := range ends {
		for k := begin(ends, i); k+1 < ends[i]; k++ {
			if u, v := residual[k], residual[k+1]; math.Abs(u) <= strayBound*sd && math.Abs(v) <= strayBound*sd {
				both, squares, pairs = both+u*v, squares+(u*u+v*v)/2, pairs+1
			}
		}
	}
	if squares > 0 {
		correlation = both / squares
		correlation += (1 + 3*correlation) * float64(len(ends)) / float64(max(1, pairs)) // corrects the bias from estimated levels
	}
	error := (1 - usualCorrelation*usualCorrelation) / math.Max(1, float64(pairs)) // squared
	weight := correlationSpread * correlationSpread / (correlationSpread*correlationSpread + error)
	correlation = weight*correlation + (1-weight)*usualCorrelation
	return noiseOf{sd, math.Min(mostCorrelation, math.Max(leastCorrelation, correlation)), strays / (float64(len(y)) + strayWeight)}
}

// variance is for the mean of n neighboring runs, in squared standard deviations.
func (n noiseOf) variance(runs int) float64 {
	sum, power := 1.0, 1.0
	for k := 1; k < runs; k++ {
		power *= n.correlation
		sum += 2 * (1 - float64(k)/float64(runs)) * power
	}
	return sum / float64(runs)
}

// cluster is the probability that a level consists only of similar outliers.
func (x noiseOf) cluster(places, length, rests int) float64 {
	choices, _ := math.Lgamma(float64(length + 1))
	for _, k := range []int{rests, length - rests} {
		l, _ := math.Lgamma(float64(k + 1))
		choices -= l
	}
	return float64(places) * math.Exp(choices+float64(rests)*math.Log(x.strays)+float64(rests-1)*math.Log(alike))
}

// places counts the possible positions of a level like from:to: one per short length at the ends of a
// history, each run elsewhere.
func places(y []float64, from, to int) int {
	if from == 0 || to == len(y) {
		return endPlaces
	}
	return len(y)
}

// The p-value accounts for all possible positions of the step.
func test(y []float64, ends []int, i int, noise noiseOf) step {
	a, runsA := centre(y[begin(ends, i):ends[i]], noise.sd)
	b, runsB := centre(y[ends[i]:ends[i+1]], noise.sd)
	s := step{at: ends[i], from: a, log: b - a, se: noise.sd * math.Sqrt(noise.variance(runsA)+noise.variance(runsB))}
	shared := noise.correlation * noise.correlation
	// the number of independent runs that estimate the deviation as well
	free := scatterWorth * float64(len(y)) * (1 - shared) / (1 + shared)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: math.Max(3, free-float64(len(ends)))}
	s.p = float64(len(y)) * 2 * t.Survival(math.Abs(s.log)/s.se)
	s.p += noise.cluster(places(y, begin(ends, i), ends[i]), ends[i]-begin(ends, i), runsA) + noise.cluster(places(y, ends[i], ends[i+1]),
		ends[i+1]-ends[i], runsB)
	s.p = math.Min(1, s.p)
	return s
}

// bestSplit is the cheapest position in from:to of a step at at. If only outliers separate equal positions,
// it is the middle one.
func bestSplit(y []float64, from, to, at int, sd float64) int {
	a, _ := centre(y[from:at], sd)
	b, _ := centre(y[at:to], sd)
	first, last, least, sum := at, at, math.Inf(1), 0.0
	for k := from; k < to; k++ { // cost of the first k runs at level a relative to level b
		if k-from >= leastRuns && to-k >= leastRuns {
			switch {
			case sum < least-1e-9:
				first, last, least = k, k, sum
			case sum < least+1e-9 && last == k-1:
				last = k
			}
		}
		sum += loss(y[k]-a, sd) - loss(y[k]-b, sd)
	}
	return (first + last) / 2
}
