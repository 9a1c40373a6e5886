package mistral

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Perplexity is exp of the mean negative log-likelihood of each token after the first,
// given those before it.
func (s *Session) Perplexity(ctx context.Context, tokens []int32) (float64, error) {
	if len(tokens) < 2 {
		return 0, fmt.Errorf("perplexity of %d tokens: expected at least 2", len(tokens))
	}
	vocab := s.m.config.Vocab
	loss := make([]float64, len(tokens)-1)
	err := s.All(ctx, tokens, func(first int, logits []float32) error {
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
		return 0, err
	}
	sum := 0.
	for _, l := range loss {
		sum += l
	}
	p := math.Exp(sum / float64(len(loss)))
	if math.IsNaN(p) {
		return 0, errors.New("perplexity: logits are not numbers")
	}
	return p, nil
}

// NegativeLogLikelihood is -log softmax(logits)[token].
func NegativeLogLikelihood(logits []float32, token int32) float64 {
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
