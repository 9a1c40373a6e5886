package advice

import (
	"math"
	"math/bits"
	"slices"
)

// Limits bound what an engine runs. All advice and all settings follow one set of them.
type Limits struct {
	// Tokens is the most tokens of a pass: the advised chunk, or where there is none, what was given; 0 for no bound.
	Tokens int `json:"tokens,omitempty"`
	// Sequences is the most sequences that decode at a time; 0 where it was not given.
	Sequences int `json:"sequences,omitempty"`
}

// sequences is the most sequences of a pass: each has one token at least. 0 is no bound.
func (l Limits) sequences() int {
	if l.Sequences == 0 || l.Tokens > 0 && l.Tokens < l.Sequences {
		return l.Tokens
	}
	return l.Sequences
}

// upTo are the passes of at most so many tokens, at least the smallest; 0 is no bound. It shares memory with p.
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

// simpler gives up what a choice among uncertain times only seems to gain: sizes move to rounder numbers, and are left out, as long as the
// expected time is not surely longer for it, nor by more than the share most.
func (p *Passes) simpler(captured []int, load *Load, most float64) []int {
	everything := []span{{0, p.ms[len(p.ms)-1]}}
	base := padded(p.ms, captured, load, everything)
	total, usual := load.total(), sum(base, p.seconds)
	// costs is by what the log of the expected time grows; ok is false where that is more than noise.
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
	for k := range len(out) - 1 { // the largest serves the largest batches
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

// roundness is how many times a number can be halved.
func roundness(m int) int { return bits.TrailingZeros(uint(m)) }
