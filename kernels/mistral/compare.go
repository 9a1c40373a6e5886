package mistral

import (
	"context"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// LogitBound is the allowed error of a type's logits, relative to the range of the reference's logits.
func LogitBound(d kernels.DType) float64 {
	if d == kernels.FP32 {
		return 1e-3
	}
	return 2e-2
}

// LogitErrors compares a prompt's logits with the reference's, relative to the range of the reference's.
type LogitErrors struct {
	Passed     bool    // all logits are finite, and none exceeds the bound
	NotFinite  int     // logits that are infinite or NaN
	Error, RMS float64 // the largest error, and the root of the mean square
	Agreement  float64 // share of tokens whose most likely successor is the reference's
	Perplexity float64 // 0 if a logit is not finite
	// Choices are the expert choices of all tokens and layers, Rounded those that differ from the reference's by rounding, and
	// Wrong those that differ by more. All are 0 without experts.
	Choices, Rounded, Wrong int
}

// Compare runs a prompt and compares its logits with a reference, nil for none. bound is the largest allowed error, and that
// of routers' logits relative to the range of a layer's. If the reference has routers, tokens go through its experts:
// between experts whose logits are within the bound, rounding decides.
func (s *Session) Compare(ctx context.Context, tokens []int32, expected *Expected, bound float64) (LogitErrors, error) {
	var check LogitErrors
	var reference [][]float64
	if expected != nil {
		reference = expected.Logits
	}
	if expected != nil && expected.Router != nil {
		s.follow = newFollower(expected.Router, s.at, bound)
		defer func() { s.follow = nil }()
	}
	vocab := s.m.config.Vocab
	loss, squares, same, count := 0., 0., 0, 0
	low, high := math.Inf(1), math.Inf(-1)
	for _, row := range reference {
		low, high = math.Min(low, slices.Min(row)), math.Max(high, slices.Max(row))
	}
	span := high - low
	if span == 0 {
		span = 1 // all logits are equal
	}
	err := s.All(ctx, tokens, func(first int, logits []float32) error {
		for i := range len(logits) / vocab {
			row, at := logits[i*vocab:(i+1)*vocab], first+i
			for _, x := range row {
				if x-x != 0 {
					check.NotFinite++
				}
			}
			if at+1 < len(tokens) {
				loss += NegativeLogLikelihood(row, tokens[at+1])
			}
			if reference == nil {
				continue
			}
			want := reference[at]
			best := 0
			for j, x := range want {
				if d := math.Abs(float64(row[j])-x) / span; d < math.Inf(1) {
					check.Error = max(check.Error, d)
					squares += d * d
					count++
				}
				if x > want[best] {
					best = j
				}
			}
			if Likeliest(row) == int32(best) {
				same++
			}
		}
		return nil
	})
	if err != nil {
		return check, err
	}
	if f := s.follow; f != nil {
		check.Choices, check.Rounded, check.Wrong = f.choices, f.rounded, f.wrong
	}
	check.Passed = check.NotFinite == 0 && check.Error <= bound && check.Wrong == 0
	if check.NotFinite == 0 {
		check.Perplexity = math.Exp(loss / float64(len(tokens)-1))
	}
	if count > 0 {
		check.RMS = math.Sqrt(squares / float64(count))
		check.Agreement = float64(same) / float64(len(tokens))
	}
	return check, nil
}

// ReferencePerplexity is the perplexity of tokens by their reference logits.
func ReferencePerplexity(logits [][]float64, tokens []int32) float64 {
	loss := 0.
	for i, row := range logits[:len(tokens)-1] {
		loss += NegativeLogLikelihood(row, tokens[i+1])
	}
	return math.Exp(loss / float64(len(tokens)-1))
}
