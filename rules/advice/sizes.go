package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Sizes are the sizes worth capturing as graphs.
type Sizes struct {
	// Asked is the maximum number; Captured are those with the least expected time, ascending.
	Asked    int   `json:"asked"`
	Captured []int `json:"captured"`
	// Expected is the expected time of a batch of the traffic in seconds.
	Expected stats.Interval `json:"expected_seconds"`
	// Covered is the share of the traffic, by weight, that fits the largest known size.
	Covered float64 `json:"traffic_covered"`
	// Against compares with usual lists of sizes.
	Against []SizesAgainst `json:"against"`
}

// SizesAgainst compares the advised sizes with a usual list, over the traffic that both cover.
type SizesAgainst struct {
	Name string `json:"name"`
	// Captured are the sizes of the list, up to the largest known one; Unknown are those among them without a
	// known time.
	Captured []int `json:"captured"`
	Unknown  []int `json:"unknown,omitempty"`
	// Covered is the share of the traffic that the list captures at known sizes.
	Covered float64 `json:"traffic_covered"`
	Saving
}

// Saving is the saving of an advice over the usual choice. Seconds are per batch, or per token.
type Saving struct {
	// Usual and Advised are times in seconds.
	Usual   float64 `json:"usual_seconds"`
	Advised float64 `json:"advised_seconds"`
	// Gain is the usual time ÷ the advised one; Saved is the saved share of the usual time. Both are
	// corrected for selection bias.
	Gain  stats.Interval `json:"gain"`
	Saved stats.Interval `json:"saved_seconds_per_second"`
}

func saving(usual, advised float64, log, sd, df float64) Saving {
	s := Saving{Usual: usual, Advised: advised, Gain: around(log, sd, df)}
	s.Saved = stats.Interval{Lo: 1 - 1/s.Gain.Lo, Mid: 1 - 1/s.Gain.Mid, Hi: 1 - 1/s.Gain.Hi}
	return s
}

// nothing is the saving of the usual choice over itself.
func nothing(seconds float64) Saving {
	return Saving{Usual: seconds, Advised: seconds, Gain: stats.Interval{Lo: 1, Mid: 1, Hi: 1}}
}

// Load is the frequency of each batch size up to a largest one.
type Load struct {
	cumulative []float64
	above      float64
}

// NewLoad returns a histogram over the sizes up to top. Without traffic it is flat in log M from bottom on.
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
		return nil, fmt.Errorf("the traffic has no batch of up to %d tokens, the largest known size", top)
	}
	if len(traffic) > 0 {
		// The weight of a listed M applies up to the next one.
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

func (l *Load) between(from, to int) float64 { return l.cumulative[to] - l.cumulative[from] }

func (l *Load) total() float64 { return l.cumulative[len(l.cumulative)-1] }

// capture is exact. The minimum with k sizes, the j-th the largest, is the minimum over i < j of that with
// k−1 up to i, plus t_j × (weight between i and j). Over j these are lines in t_j whose slopes fall as i
// rises, so their lower envelope answers each query in logarithmic time.
func capture(ms []int, seconds []float64, load *Load, most int) []int {
	n := len(ms)
	most = min(most, n)
	serves := n // the least size that fits all batches, 1-based
	for serves > 1 && load.between(ms[serves-2], ms[n-1]) == 0 {
		serves--
	}
	weight := make([]float64, n+1) // up to size i−1, 0 before the first
	for i := range n {
		weight[i+1] = load.cumulative[ms[i]]
	}
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
		// last is never lowest if i beats before no later than last does.
		if (least[i]-least[before])*(weight[last]-weight[before]) <= (least[last]-least[before])*(weight[i]-weight[before]) {
			hull = hull[:len(hull)-1]
			continue
		}
		break
	}
	return append(hull, i)
}

// padded returns the weights of the known sizes when batches within reach are padded to the next of captured
// (indices of ms).
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

// span is the batches above one size up to another.
type span struct{ above, to int }

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
	return []SizesAgainst{{Name: "powers of two", Captured: powers}, {Name: "vLLM's default", Captured: vllm},
		{Name: "all known sizes", Captured: ms}}
}

func sum(weights, seconds []float64) float64 {
	var total, all float64
	for i, w := range weights {
		total += w * seconds[i]
		all += w
	}
	return total / all
}

// AdviseSizes picks at most most sizes to capture, preferring fewer and rounder ones within their errors and
// minGain. draws is the number of repetitions; see the package comment.
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
	// The excess of the apparent over the true gain.
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
			if a.Saving = nothing(u); !slices.Equal(w, usual[k]) { // some batches run at other sizes
				a.Saving = saving(u, v, math.Log(u/v)-bias, sd, p.leastDF())
			}
		}
		s.Against = append(s.Against, *a)
	}
	return s
}

func (p *Passes) mean(weights []float64) stats.Interval {
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

// leastDF is for the errors of choices.
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

func at(ms, indices []int) []int {
	out := make([]int, len(indices))
	for k, i := range indices {
		out[k] = ms[i]
	}
	return out
}

func meanAndDeviation(v []float64) (mean, sd float64) {
	if len(v) == 0 {
		return 0, 0
	}
	return stat.PopMeanStdDev(v, nil)
}

// Text formats a list of sizes.
func Text(sizes []int) string {
	words := make([]string, len(sizes))
	for i, m := range sizes {
		words[i] = fmt.Sprint(m)
	}
	return strings.Join(words, ", ")
}
