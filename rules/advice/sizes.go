package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Sizes are the sizes that are worth capturing as graphs.
type Sizes struct {
	// Asked is how many there may be; Captured are those with the least expected time, ascending.
	Asked    int   `json:"asked"`
	Captured []int `json:"captured"`
	// Expected is the expected time of a batch of the traffic in seconds.
	Expected rules.Interval `json:"expected_seconds"`
	// Covered is the share of the traffic, by weight, that fits the largest known size.
	Covered float64 `json:"traffic_covered"`
	// Against are usual lists of sizes.
	Against []SizesAgainst `json:"against"`
}

// SizesAgainst compares the advised sizes with a usual list, over the traffic of which both are known.
type SizesAgainst struct {
	Name string `json:"name"`
	// Captured are the sizes of the list, up to the largest known one; Unknown are those among them
	// of which no time is known.
	Captured []int `json:"captured"`
	Unknown  []int `json:"unknown,omitempty"`
	// Covered is the share of the traffic that the list captures at sizes that are known.
	Covered float64 `json:"traffic_covered"`
	Saving
}

// Saving is what an advice saves against something usual. Seconds of both are those of a batch, or of
// a token.
type Saving struct {
	// Usual and Advised are times in seconds.
	Usual   float64 `json:"usual_seconds"`
	Advised float64 `json:"advised_seconds"`
	// Gain is the usual time ÷ the advised one; Saved is what is saved of each second that the
	// usual takes. Both are corrected for the choice among uncertain times.
	Gain  rules.Interval `json:"gain"`
	Saved rules.Interval `json:"saved_seconds_per_second"`
}

// saving makes a saving of the log of a gain.
func saving(usual, advised float64, log, sd, df float64) Saving {
	s := Saving{Usual: usual, Advised: advised, Gain: around(log, sd, df)}
	s.Saved = rules.Interval{Lo: 1 - 1/s.Gain.Lo, Mid: 1 - 1/s.Gain.Mid, Hi: 1 - 1/s.Gain.Hi}
	return s
}

// nothing is the saving of what is usual over itself.
func nothing(seconds float64) Saving {
	return Saving{Usual: seconds, Advised: seconds, Gain: rules.Interval{Lo: 1, Mid: 1, Hi: 1}}
}

// Load is how often each batch size up to a largest one is run.
type Load struct {
	cumulative []float64 // weight of all sizes up to m
	above      float64   // weight above the largest
}

// NewLoad is a histogram over the sizes up to top. Without traffic it is flat in log M from
// bottom on.
func NewLoad(traffic results.Traffic, bottom, top int) (*Load, error) {
	l := &Load{cumulative: make([]float64, top+1)}
	sum := 0.0
	for m := 1; m <= top; m++ {
		switch {
		case len(traffic) > 0:
			sum += traffic.Weight(m)
		case m >= bottom:
			sum += 1 / float64(m)
		}
		l.cumulative[m] = sum
	}
	if sum == 0 {
		return nil, fmt.Errorf("the traffic has no batch of up to %d tokens, the largest size that is known", top)
	}
	if len(traffic) > 0 {
		// The weight of a listed M holds up to the next one.
		for i, t := range traffic {
			next := t.M + 1
			if i+1 < len(traffic) {
				next = traffic[i+1].M
			}
			l.above += t.Weight * float64(max(0, next-max(t.M, top+1)))
		}
	}
	return l, nil
}

// between is the weight of the sizes above from, up to to.
func (l *Load) between(from, to int) float64 { return l.cumulative[to] - l.cumulative[from] }

// total is the weight of all sizes up to the largest.
func (l *Load) total() float64 { return l.cumulative[len(l.cumulative)-1] }

// capture picks at most most of the sizes, so that all batches are served and the weighted sum of the
// times of the sizes that they are padded to is least. It is exact: the least sum with
// k sizes of which the j-th is the largest is the least over i < j of that with k−1 up to i, plus
// t_j × (weight between i and j). Over j these are lines in t_j whose slopes fall as i rises, so that
// their lower envelope answers each in logarithmic time.
func capture(ms []int, seconds []float64, load *Load, most int) []int {
	n := len(ms)
	most = min(most, n)
	serves := n // the least size that all batches fit, 1-based
	for serves > 1 && load.between(ms[serves-2], ms[n-1]) == 0 {
		serves--
	}
	weight := make([]float64, n+1) // up to size i−1, 0 before the first
	for i := range n {
		weight[i+1] = load.cumulative[ms[i]]
	}
	// least[j] is of batches up to the j-th size, 1-based; one size to begin with.
	least := make([]float64, n+1)
	least[0] = math.Inf(1)
	from := make([][]int32, most)
	from[0] = make([]int32, n+1)
	for j := 1; j <= n; j++ {
		least[j] = seconds[j-1] * weight[j]
	}
	last, bestOf, bestSum := 0, 0, math.Inf(1)
	better := func(k int) {
		for j := serves; j <= n; j++ {
			if least[j] < bestSum {
				last, bestOf, bestSum = j, k, least[j]
			}
		}
	}
	better(0)
	next := make([]float64, n+1)
	hull := make([]int32, 0, n)
	for k := 1; k < most; k++ {
		from[k] = make([]int32, n+1)
		for j := range next {
			next[j] = math.Inf(1)
		}
		hull = hull[:0]
		for j := k + 1; j <= n; j++ {
			hull = envelope(hull, int32(j-1), least, weight)
			t := seconds[j-1]
			lo, hi := 0, len(hull)-1
			for lo < hi { // lines further on have lower slopes: they win at large t
				middle := (lo + hi) / 2
				a, b := hull[middle], hull[middle+1]
				if least[b]-weight[b]*t <= least[a]-weight[a]*t {
					lo = middle + 1
				} else {
					hi = middle
				}
			}
			i := hull[lo]
			next[j], from[k][j] = least[i]+t*(weight[j]-weight[i]), i
		}
		least, next = next, least
		better(k)
	}
	var out []int
	for k, j := bestOf, int32(last); j > 0 && k >= 0; k-- {
		out = append(out, int(j)-1)
		j = from[k][j]
	}
	slices.Reverse(out)
	return out
}

// envelope adds the line of i to the lower envelope.
func envelope(hull []int32, i int32, least, weight []float64) []int32 {
	for len(hull) >= 1 {
		last := hull[len(hull)-1]
		if weight[last] == weight[i] { // parallel: the lower one stays
			if least[last] <= least[i] {
				return hull
			}
			hull = hull[:len(hull)-1]
			continue
		}
		if len(hull) < 2 {
			break
		}
		before := hull[len(hull)-2]
		// last is nowhere lowest if i beats before no later than last does.
		if (least[i]-least[before])*(weight[last]-weight[before]) <= (least[last]-least[before])*(weight[i]-weight[before]) {
			hull = hull[:len(hull)-1]
			continue
		}
		break
	}
	return append(hull, i)
}

// padded are the weights of the known sizes when batches are padded to the next of captured, which are
// indices of ms, over the batches that reach allows.
func padded(ms []int, captured []int, load *Load, reach []span) []float64 {
	w := make([]float64, len(ms))
	from := 0
	for _, i := range captured {
		for _, s := range reach {
			if lo, hi := max(from, s.above), min(ms[i], s.to); lo < hi {
				w[i] += load.between(lo, hi)
			}
		}
		from = ms[i]
	}
	return w
}

// span are batches above one size up to another.
type span struct{ above, to int }

// usualSizes are lists of sizes that engines capture, up to the largest known one.
func usualSizes(ms []int) []SizesAgainst {
	top := ms[len(ms)-1]
	powers := []int{}
	for m := 1; m <= top; m *= 2 {
		powers = append(powers, m)
	}
	// vLLM's: [1, 2, 4], then steps of 8 up to 256 and of 16 up to max_cudagraph_capture_size,
	// which is 512 unless there are fewer sequences.
	const vllmMost = 512
	vllm := []int{1, 2, 4}
	for m := 8; m < 256; m += 8 {
		vllm = append(vllm, m)
	}
	for m := 256; m <= vllmMost; m += 16 {
		vllm = append(vllm, m)
	}
	vllm = slices.DeleteFunc(vllm, func(m int) bool { return m > top })
	return []SizesAgainst{{Name: "powers of two", Captured: powers}, {Name: "vLLM's default", Captured: vllm}, {Name: "all known sizes", Captured: ms}}
}

// sum is Σ weight·time ÷ Σ weight.
func sum(weights, seconds []float64) float64 {
	var total, all float64
	for i, w := range weights {
		total += w * seconds[i]
		all += w
	}
	return total / all
}

// AdviseSizes picks at most most sizes to capture: rounder and fewer ones, where times are as good within their errors and minGain. draws is how often the choice is repeated, see the
// package comment.
func (p *Passes) AdviseSizes(load *Load, most, draws int, minGain float64, normal func() float64) Sizes {
	captured := p.simpler(capture(p.ms, p.seconds, load, most), load, minGain)
	s := Sizes{Asked: most, Captured: at(p.ms, captured), Covered: load.total() / (load.total() + load.above)}
	everything := []span{{0, p.ms[len(p.ms)-1]}}
	own := padded(p.ms, captured, load, everything)
	s.Expected = p.mean(own)
	againsts := usualSizes(p.ms)
	usual := make([][]float64, len(againsts))
	reach := make([][]span, len(againsts))
	for k := range againsts {
		a := &againsts[k]
		var known []int
		from := 0
		for _, m := range a.Captured {
			if i, ok := slices.BinarySearch(p.ms, m); ok {
				known = append(known, i)
				// Batches that the advised sizes serve too.
				if hi := min(m, p.ms[captured[len(captured)-1]]); hi > from {
					reach[k] = append(reach[k], span{from, hi})
				}
			} else {
				a.Unknown = append(a.Unknown, m)
			}
			from = m
		}
		usual[k] = make([]float64, len(p.ms))
		for _, i := range known {
			above := 0
			if j, _ := slices.BinarySearch(a.Captured, p.ms[i]); j > 0 {
				above = a.Captured[j-1]
			}
			if hi := min(p.ms[i], p.ms[captured[len(captured)-1]]); hi > above {
				usual[k][i] += load.between(above, hi)
			}
		}
		for _, r := range reach[k] {
			a.Covered += load.between(r.above, r.to)
		}
		a.Covered /= load.total() + load.above
	}
	// How much a choice by drawn times seems to gain beyond what it gains.
	excess := make([][]float64, len(againsts))
	for range draws {
		drawn := p.drawn(normal)
		chosen := capture(p.ms, drawn, load, most)
		for k := range againsts {
			if againsts[k].Covered == 0 {
				continue
			}
			w := padded(p.ms, chosen, load, reach[k])
			seems := math.Log(sum(usual[k], drawn) / sum(w, drawn))
			is := math.Log(sum(usual[k], p.seconds) / sum(w, p.seconds))
			excess[k] = append(excess[k], seems-is)
		}
	}
	for k := range againsts {
		a := &againsts[k]
		if a.Covered > 0 {
			w := padded(p.ms, captured, load, reach[k])
			bias, sd := meanAndDeviation(excess[k])
			u, v := sum(usual[k], p.seconds), sum(w, p.seconds)
			if a.Saving = nothing(u); !slices.Equal(w, usual[k]) { // other batches run at other sizes
				a.Saving = saving(u, v, math.Log(u/v)-bias, sd, p.leastDF())
			}
		}
		s.Against = append(s.Against, *a)
	}
	return s
}

// mean is the weighted mean of times with its interval.
func (p *Passes) mean(weights []float64) rules.Interval {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	mean := sum(weights, p.seconds)
	shares := make([]float64, len(weights))
	for i, w := range weights {
		shares[i] = w / total / mean
	}
	sd, df := p.deviation(shares)
	return around(math.Log(mean), sd, df)
}

// leastDF is what the errors of choices are held to: the degrees of freedom of what is least known.
func (p *Passes) leastDF() float64 {
	df := float64(normalDF)
	for _, v := range p.df {
		df = math.Min(df, math.Max(v, 1))
	}
	for _, v := range p.sharedDF {
		df = math.Min(df, v)
	}
	return df
}

// at are the sizes at indices.
func at(ms, indices []int) []int {
	out := make([]int, len(indices))
	for k, i := range indices {
		out[k] = ms[i]
	}
	return out
}

// meanAndDeviation of values; zeros for none.
func meanAndDeviation(v []float64) (mean, sd float64) {
	if len(v) == 0 {
		return 0, 0
	}
	return stat.PopMeanStdDev(v, nil)
}

// Text lists sizes.
func Text(sizes []int) string {
	words := make([]string, len(sizes))
	for i, m := range sizes {
		words[i] = fmt.Sprint(m)
	}
	return strings.Join(words, ", ")
}
