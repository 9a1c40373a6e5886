package advice

import (
	"math"
	"math/bits"
	"slices"
)

// Limits restrict what an engine runs. All advice and settings use the same limits.
type Limits struct {
	// Tokens is the maximum number of tokens per pass: the advised chunk, or else the given limit; 0 for no
	// limit.
	Tokens int `json:"tokens,omitempty"`
	// Sequences is the maximum number of decoding sequences; 0 if not given.
	Sequences int `json:"sequences,omitempty"`
}

// Each sequence has at least one token. 0 is no limit.
func (l Limits) sequences() int {
	if l.Sequences == 0 || l.Tokens > 0 && l.Tokens < l.Sequences {
		return l.Tokens
	}
	return l.Sequences
}

// upTo returns the passes of at most so many tokens; 0 is no limit. It shares memory with p.
func (p *Passes) upTo(tokens int) *Passes {
	if tokens <= 0 {
		return p
	}
	n, found := slices.BinarySearch(p.ms, tokens)
	if found {
		n++
	}
	out := *p
	out.shared = slices.Clone(p.shared)
	out.keep(0, max(1, n))
	return &out
}

// simpler moves sizes to rounder numbers or drops them. The expected time must not surely increase, nor grow
// by more than the share most.
func (p *Passes) simpler(captured []int, load *Load, most float64) []int {
	everything := []span{{0, p.ms[len(p.ms)-1]}}
	base := padded(p.ms, captured, load, everything)
	total, usual := load.total(), sum(base, p.seconds)
	// costs is the increase of the log of the expected time; ok is false if it is more than noise.
	costs := func(sizes []int) (log float64, ok bool) {
		w := padded(p.ms, sizes, load, everything)
		u := sum(w, p.seconds)
		differ := make([]float64, len(w))
		for i := range w {
			differ[i] = w[i]/(total*u) - base[i]/(total*usual)
		}
		sd, df := p.deviation(differ)
		log = math.Log(u / usual)
		return log, log <= 0 || log <= math.Min(half(df)*sd, math.Log1p(most))
	}
	out := slices.Clone(captured)
	for k := range len(out) - 1 { // the largest is needed for the largest batches
		from := 0
		if k > 0 {
			from = out[k-1] + 1
		}
		chosen := out[k]
		for i := from; i < out[k+1]; i++ {
			if roundness(p.ms[i]) <= roundness(p.ms[chosen]) {
				continue
			}
			tried := slices.Clone(out)
			tried[k] = i
			if _, ok := costs(tried); ok {
				chosen = i
			}
		}
		out[k] = chosen
	}
	for len(out) > 1 {
		best, least := -1, math.Inf(1)
		for k := range len(out) - 1 {
			if log, ok := costs(slices.Delete(slices.Clone(out), k, k+1)); ok && log < least {
				best, least = k, log
			}
		}
		if best < 0 {
			break
		}
		out = slices.Delete(out, best, best+1)
	}
	return out
}

func roundness(m int) int { return bits.TrailingZeros(uint(m)) }
