package sweep

import (
	"context"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// NoiseFloor is the result of measuring a case against itself.
type NoiseFloor struct {
	Case   results.Case `json:"case"`
	Rounds int          `json:"rounds"` // samples of each name of a pair
	// Ratios are stats.Median(A) ÷ stats.Median(A') of the pairs, ascending.
	Ratios []float64 `json:"ratios"`
	// Flagged counts pairs that the test called different; Rate is their share.
	Flagged int     `json:"flagged"`
	Rate    float64 `json:"rate"`
}

// Quantile is the ratio below which a share q of the pairs lies.
func (n *NoiseFloor) Quantile(q float64) float64 {
	if len(n.Ratios) == 0 {
		return 1
	}
	return stats.Quantile(n.Ratios, max(0, min(1, q)))
}

// Spread is half the range of the middle 68 % of the ratios: the standard deviation for normal ratios, and
// robust against tails.
func (n *NoiseFloor) Spread() float64 { return (n.Quantile(0.84) - n.Quantile(0.16)) / 2 }

// NoiseFloor measures a case against itself, pairs times, all interleaved. different is the test whose false
// positives are counted; it gets both times in microseconds.
func (m *Measurer) NoiseFloor(ctx context.Context, c results.Case, pairs, rounds int,
	different func(a, b []float64) bool) (*NoiseFloor, error) {
	if pairs < 1 || rounds < 1 {
		return nil, fmt.Errorf("noise floor of %v: %d pairs of %d rounds, expected at least 1", c, pairs, rounds)
	}
	requests := make([]results.Request, 2*pairs)
	for i := range requests {
		requests[i] = results.Request{Case: c, Phase: results.PhaseNoise}
	}
	got, err := m.Measure(ctx, requests, rounds)
	if err != nil {
		return nil, fmt.Errorf("noise floor of %v: %w", c, err)
	}
	n := &NoiseFloor{Case: c, Rounds: rounds}
	for i := 0; i < len(got); i += 2 {
		a, b := times(got[i]), times(got[i+1])
		if len(a) == 0 || len(b) == 0 {
			return nil, fmt.Errorf("noise floor of %v: the case failed", c)
		}
		n.Ratios = append(n.Ratios, stats.Median(a)/stats.Median(b))
		if different(a, b) {
			n.Flagged++
		}
	}
	slices.Sort(n.Ratios)
	n.Rate = float64(n.Flagged) / float64(pairs)
	return n, nil
}

func times(samples []results.Sample) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = s.US
	}
	return out
}
