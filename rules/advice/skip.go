package advice

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Skip is a size that is never worth running: a larger one is faster.
type Skip struct {
	M int `json:"m"`
	// RunM is the size to pad to, the fastest larger one.
	RunM    int     `json:"run_m"`
	Seconds float64 `json:"seconds"`
	Run     float64 `json:"run_seconds"`
	// Gain is the size's time ÷ RunM's time.
	Gain      stats.Interval `json:"gain"`
	AdjustedP float64        `json:"p_adjusted"`
}

// Sizes with p-values above tossUp are excluded from the tested family: most are surely faster than all
// larger ones and would only reduce the power. Conditional on being at most tossUp, such a p-value is no
// smaller than by chance, so dividing by tossUp preserves the rate (Zhao, Small and Su, "Multiple testing
// when many p-values are uniformly conservative", 2019).
const tossUp = 0.5

// AdviseSkips lists the sizes surely slower than a larger one, by gain or more. At most the share fdr of them
// are false (Benjamini–Hochberg over the sizes that look slower). The p-value against the fastest larger size
// is multiplied by the number of larger sizes that may be the fastest.
func (p *Passes) AdviseSkips(gain, fdr float64) []Skip {
	n := len(p.ms)
	if n < 2 {
		return nil
	}
	fastest := make([]int, n) // among the sizes from i on
	fastest[n-1] = n - 1
	for i := n - 2; i >= 0; i-- {
		if fastest[i] = fastest[i+1]; p.seconds[i] < p.seconds[fastest[i]] {
			fastest[i] = i
		}
	}
	var all []Skip
	var values []float64
	for i := range n - 1 {
		j := fastest[i+1]
		sd, df := p.ratioDeviation(i, j)
		log := math.Log(p.seconds[i] / p.seconds[j])
		if log <= 0 || sd == 0 || !p.sure(i, j) { // without known noise no difference is sure
			continue
		}
		value := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: math.Min(math.Max(df, 1), normalDF)}.Survival(log / sd)
		values = append(values, math.Min(1, value/tossUp*float64(p.rivals(i, j, fastest))))
		all = append(all, Skip{M: p.ms[i], RunM: p.ms[j], Seconds: p.seconds[i], Run: p.seconds[j], Gain: around(log, sd, df)})
	}
	var out []Skip
	for i, adjusted := range stats.AdjustP(values) {
		if s := all[i]; adjusted <= fdr && s.Gain.Mid >= 1+gain {
			s.AdjustedP = adjusted
			out = append(out, s)
		}
	}
	return out
}

// skipping is relative to running all known sizes.
func (p *Passes) skipping(skips []Skip, load *Load) Saving {
	usual := make([]float64, len(p.ms))
	advised := make([]float64, len(p.ms))
	from := 0
	for i, m := range p.ms {
		w := load.between(from, m)
		from = m
		usual[i] += w
		run := i
		if k, ok := slices.BinarySearchFunc(skips, m, func(s Skip, m int) int { return cmp.Compare(s.M, m) }); ok {
			run, _ = slices.BinarySearch(p.ms, skips[k].RunM)
		}
		advised[run] += w
	}
	u, v := sum(usual, p.seconds), sum(advised, p.seconds)
	total := load.total()
	differ := make([]float64, len(p.ms))
	for i := range differ {
		differ[i] = usual[i]/(total*u) - advised[i]/(total*v)
	}
	sd, df := p.deviation(differ)
	return saving(u, v, math.Log(u/v), sd, df)
}

// rivals counts the sizes above i that are not surely slower than j, the fastest of them.
func (p *Passes) rivals(i, j int, fastest []int) int {
	const surely = 3 // standard errors
	count := 0
	for k := i + 1; k < len(p.ms); k++ {
		sd, _ := p.ratioDeviation(k, j)
		if math.Log(p.seconds[k]/p.seconds[j]) <= surely*sd {
			count++
			continue
		}
		// All sizes from k on are far slower.
		if f := fastest[k]; math.Log(p.seconds[f]/p.seconds[j]) > 2*surely*sd+0.1 {
			break
		}
	}
	return max(1, count)
}
