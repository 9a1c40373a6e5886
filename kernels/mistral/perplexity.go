package mistral

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Perplexity returns exp of the mean negative log-likelihood of each token after the first, given those
// before it, and its standard error from the tokens' spread.
func (s *Session) Perplexity(ctx context.Context, tokens []int32) (value, standardError float64, err error) {
	if len(tokens) < 2 {
		return 0, 0, fmt.Errorf("perplexity of %d tokens: expected at least 2", len(tokens))
	}
	vocab := s.m.config.Vocab
	loss := make([]float64, len(tokens)-1)
	err = s.All(ctx, tokens, func(first int, logits []float32) error {
		var wait sync.WaitGroup
		rows := len(logits) / vocab
		workers := min(rows, runtime.GOMAXPROCS(0))
		for w := range workers {
			wait.Go(func() {
				for i := w; i < rows; i += workers {
					if at := first + i; at < len(loss) {
						loss[at] = NegativeLogLikelihood(logits[i*vocab:(i+1)*vocab], tokens[at+1])
					}
				}
			})
		}
		wait.Wait()
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	n := float64(len(loss))
	mean, squares := 0., 0.
	for _, l := range loss {
		mean += l / n
	}
	for _, l := range loss {
		squares += (l - mean) * (l - mean)
	}
	value = math.Exp(mean)
	if math.IsNaN(value) {
		return 0, 0, ErrNotFinite
	}
	if n > 1 {
		standardError = value * math.Sqrt(squares/(n-1)/n)
	}
	return value, standardError, nil
}

// NegativeLogLikelihood returns -log softmax(logits)[token].
func NegativeLogLikelihood[T float32 | float64](logits []T, token int32) float64 {
	top := math.Inf(-1)
	for _, v := range logits {
		top = math.Max(top, float64(v))
	}
	sum := 0.
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum) - float64(logits[token])
}
