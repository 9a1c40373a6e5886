package history

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// The settings of the search for changes. E-divisive, as Apache Otava runs it, permutes the runs, which takes them for
// independent; neighbouring runs are alike, as they share days and states of a machine. So the search is a
// Viterbi path over levels under a loss that strays can't dominate (Fearnhead and Rigaill 2019), and each step of the path is
// tested with the correlation of neighbours in its error.
const (
	// strayBound is from how many standard deviations on a run counts as a stray: no farther one costs more.
	strayBound = 3.5
	// stepPrice is what the path pays for a step, in squared standard deviations. It is low, since the tests take back
	// what is too much.
	stepPrice = 14
	// leastRuns is how many runs a level takes. Two strays that are alike are none.
	leastRuns = 3
	// usualCorrelation is what neighbouring runs have in common before anything is known of a history, and
	// correlationSpread how far histories differ in it. Of 60 runs it is estimated to 0.11: their estimate counts for almost half. With a
	// wider spread histories whose neighbours are alike by chance hide steps, and hardly fewer false ones are found.
	usualCorrelation, correlationSpread = 0.5, 0.1
	// leastCorrelation and mostCorrelation bound it.
	leastCorrelation, mostCorrelation = 0, 0.9
	// leastNoise is the least standard deviation between runs that is believed, as a share of time.
	leastNoise = 0.001
	// usualStrays is the share of strays before anything is known of a history, which counts for as many runs as strayWeight.
	usualStrays, strayWeight = 0.1, 60
	// endPlaces is how many levels of strays there may be at the ends of a history, which one step makes: those of a few lengths.
	endPlaces = 10
	// alike is how often a stray is as slow as another one, so that they look like a level.
	alike = 0.25
	// scatterWorth is what runs without strays tell of their scatter, as a share of what Gaussian ones would: with it, histories of 50
	// cases of which nothing changes keep to their level.
	scatterWorth = 0.6
	// mostLevels bounds the levels of the path, which lie half a standard deviation apart.
	mostLevels = 1000
)

// LeastRuns is how many runs a history takes for its noise to be known.
const LeastRuns = 10

// step is a change of level of one history.
type step struct {
	at int // the first run of the new level
	// from is the level before, log the log of the ratio of levels, se its standard error, p the p-value that there is no step
	// at any run.
	from, log, se, p float64
}

// noiseOf is what a history scatters by about its levels: logs of standard deviation sd, of which neighbours have a part in common.
type noiseOf struct {
	sd, correlation float64
	strays          float64 // the share of runs that are some
}

// steps finds the changes of level of a history of log times, each with a p-value of at most level.
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
		settle(y, ends, noise.sd) // what a short level drew aside goes back
	}
}

// settle moves the steps between levels to where they cost least.
func settle(y []float64, ends []int, sd float64) {
	for i := range len(ends) - 1 {
		ends[i] = bestSplit(y, begin(ends, i), ends[i+1], ends[i], sd)
	}
}

// begin is where the level i begins, of levels that end before ends.
func begin(ends []int, i int) int {
	if i == 0 {
		return 0
	}
	return ends[i-1]
}

// firstNoise is the scatter of neighbours, which steps and a few strays do not touch, as the scatter of runs whose
// neighbours have half of it in common.
func firstNoise(y []float64) float64 {
	d := make([]float64, len(y)-1)
	for i := range d {
		d[i] = math.Abs(y[i+1] - y[i])
	}
	return math.Max(leastNoise, 1.4826*middle(d)) // 1/√2 for two runs, 1/√(1-0.5) for what they share
}

// path returns the ends of the levels along which a history costs least.
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

// loss is the price of a residual.
func loss(r, sd float64) float64 {
	r /= sd
	return math.Min(r*r, strayBound*strayBound)
}

// withoutShort joins levels of fewer runs than a level takes with the neighbour that is nearest to them.
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
		of := func(i int) float64 { return middle(y[begin(ends, i):ends[i]]) }
		drop := short // the end that goes: its own, so that it joins the next
		if short == len(ends)-1 || short > 0 && math.Abs(of(short-1)-of(short)) < math.Abs(of(short+1)-of(short)) {
			drop = short - 1
		}
		ends = slices.Delete(ends, drop, drop+1)
	}
	return ends
}

// centre is the level of some runs: the mean of those within the bound of strays about their median, and how many they are.
func centre(y []float64, sd float64) (level float64, runs int) {
	level = middle(y)
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

// noiseAbout is the noise about levels: the standard deviation of what is no stray, and what neighbours have in common.
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
		// A level takes one run's worth of freedom.
		free := float64(len(y)) / math.Max(1, float64(len(y)-len(ends)))
		sd = math.Max(leastNoise, 1.4826*middle(absolute)*math.Sqrt(free))
	}
	strays, kept, about := usualStrays*strayWeight, 0, 0.0
	for _, r := range residual {
		if math.Abs(r) > strayBound*sd {
			strays++
		} else {
			kept, about = kept+1, about+r*r
		}
	}
	// The median deviation says what is a stray; the others tell the scatter better than it does.
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
		correlation += (1 + 3*correlation) * float64(len(ends)) / float64(max(1, pairs)) // what estimated levels take from it
	}
	error := (1 - usualCorrelation*usualCorrelation) / math.Max(1, float64(pairs)) // squared
	weight := correlationSpread * correlationSpread / (correlationSpread*correlationSpread + error)
	correlation = weight*correlation + (1-weight)*usualCorrelation
	return noiseOf{sd, math.Min(mostCorrelation, math.Max(leastCorrelation, correlation)), strays / (float64(len(y)) + strayWeight)}
}

// variance is that of the mean of n neighbouring runs, in squares of the standard deviation.
func (n noiseOf) variance(runs int) float64 {
	sum, power := 1.0, 1.0
	for k := 1; k < runs; k++ {
		power *= n.correlation
		sum += 2 * (1 - float64(k)/float64(runs)) * power
	}
	return sum / float64(runs)
}

// cluster is how likely it is that a level that rests on so many of its runs is nothing but strays that are alike, at one of so many
// places.
func (x noiseOf) cluster(places, length, rests int) float64 {
	choices, _ := math.Lgamma(float64(length + 1))
	for _, k := range []int{rests, length - rests} {
		l, _ := math.Lgamma(float64(k + 1))
		choices -= l
	}
	return float64(places) * math.Exp(choices+float64(rests)*math.Log(x.strays)+float64(rests-1)*math.Log(alike))
}

// places is how many places there are for a level such as that of the runs from to before to: where a history begins or ends those of
// a few lengths, elsewhere each run.
func places(y []float64, from, to int) int {
	if from == 0 || to == len(y) {
		return endPlaces
	}
	return len(y)
}

// test holds the level i against the next one. The p-value is for the worst of all runs at which there might be a step.
func test(y []float64, ends []int, i int, noise noiseOf) step {
	a, runsA := centre(y[begin(ends, i):ends[i]], noise.sd)
	b, runsB := centre(y[ends[i]:ends[i+1]], noise.sd)
	s := step{at: ends[i], from: a, log: b - a, se: noise.sd * math.Sqrt(noise.variance(runsA)+noise.variance(runsB))}
	shared := noise.correlation * noise.correlation
	free := scatterWorth * float64(len(y)) * (1 - shared) / (1 + shared) // independent runs from which the deviation would be known as well
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: math.Max(3, free-float64(len(ends)))}
	s.p = float64(len(y)) * 2 * t.Survival(math.Abs(s.log)/s.se)
	s.p += noise.cluster(places(y, begin(ends, i), ends[i]), ends[i]-begin(ends, i), runsA) + noise.cluster(places(y, ends[i], ends[i+1]), ends[i+1]-ends[i], runsB)
	s.p = math.Min(1, s.p)
	return s
}

// bestSplit is where in from to before to a step costs least, of two levels that stay about as they are at the given run. Strays
// cost the same on either side: of runs between which only strays lie it is the middle one.
func bestSplit(y []float64, from, to, at int, sd float64) int {
	a, _ := centre(y[from:at], sd)
	b, _ := centre(y[at:to], sd)
	first, last, least, sum := at, at, math.Inf(1), 0.0
	for k := from; k < to; k++ { // the price of the first k runs at level a over that at level b
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

// middle is the median.
func middle(y []float64) float64 {
	s := slices.Clone(y)
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
