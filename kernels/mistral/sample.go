package mistral

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling describes how the next token is drawn. The zero value takes the likeliest.
type Sampling struct {
	// Temperature divides the logits; 0 takes the likeliest token.
	Temperature float64
	// TopP keeps the likeliest tokens that together have at least this probability
	// (nucleus sampling; Holtzman et al. 2020); 0 and 1 keep all.
	TopP float64
	// MinP keeps tokens of at least this share of the likeliest one's probability
	// (Nguyen et al. 2024); 0 keeps all.
	MinP float64
	// Seed makes draws repeatable.
	Seed uint64
}

// Validate names the first invalid field.
func (s Sampling) Validate() error {
	switch {
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0):
		return fmt.Errorf("temperature is %g, expected 0 or more", s.Temperature)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("top-p is %g, expected 0 to 1", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return fmt.Errorf("min-p is %g, expected 0 to 1", s.MinP)
	}
	return nil
}

// Sampler draws tokens.
type Sampler struct {
	Sampling
	random *rand.Rand
	order  []int32
	weight []float64
}

// NewSampler starts the sequence of draws of s.Seed. s must be valid.
func NewSampler(s Sampling) *Sampler {
	return &Sampler{Sampling: s, random: rand.New(rand.NewPCG(s.Seed, 0x6d697374726c))}
}

func (s *Sampler) greedy() bool { return s.Temperature == 0 }

// Likeliest returns the index of the largest logit, the first if equal; NaN is never the largest.
func Likeliest(logits []float32) int32 {
	best := -1
	for i, v := range logits {
		if v == v && (best < 0 || v > logits[best]) {
			best = i
		}
	}
	return int32(max(best, 0))
}

// Draw picks a token by its logits.
func (s *Sampler) Draw(logits []float32) int32 {
	if s.greedy() {
		return Likeliest(logits)
	}
	top := float64(logits[Likeliest(logits)])
	s.order, s.weight = s.order[:0], s.weight[:0]
	// Weights are relative to the likeliest token's, which is 1.
	least := s.MinP
	for i, v := range logits {
		if w := math.Exp((float64(v) - top) / s.Temperature); w >= least && w > 0 {
			s.order = append(s.order, int32(i))
			s.weight = append(s.weight, w)
		}
	}
	if len(s.order) == 0 {
		return Likeliest(logits)
	}
	if s.TopP > 0 && s.TopP < 1 {
		s.nucleus()
	}
	sum := 0.
	for _, w := range s.weight {
		sum += w
	}
	at := s.random.Float64() * sum
	for i, w := range s.weight {
		if at -= w; at < 0 {
			return s.order[i]
		}
	}
	return s.order[len(s.order)-1]
}

// nucleus keeps the likeliest tokens up to a total probability of TopP.
func (s *Sampler) nucleus() {
	by := make([]int, len(s.order))
	sum := 0.
	for i, w := range s.weight {
		by[i] = i
		sum += w
	}
	slices.SortStableFunc(by, func(a, b int) int { return cmp.Compare(s.weight[b], s.weight[a]) })
	order, weight := make([]int32, 0, len(by)), make([]float64, 0, len(by))
	kept := 0.
	for _, i := range by {
		order, weight = append(order, s.order[i]), append(weight, s.weight[i])
		if kept += s.weight[i]; kept >= s.TopP*sum {
			break
		}
	}
	s.order, s.weight = order, weight
}
