package kernels

import "math"

// RoundedGroup is the number of activations that share a scale where a kernel rounds them to 8 bits: the largest ÷ 127.
const RoundedGroup = 32

// roundedDeviations is λ of [RoundedBound], as in [ErrorConstant].
const roundedDeviations = 6

// RoundingSteps returns the distance between the values that each element of a row of A is rounded to. Infinities and
// NaN do not count: their rows are not rounded.
func RoundingSteps(a []float64) []float64 {
	steps := make([]float64, len(a))
	for from := 0; from < len(a); from += RoundedGroup {
		end := min(from+RoundedGroup, len(a))
		most := 0.0
		for _, x := range a[from:end] {
			if x = math.Abs(x); x > most && !math.IsInf(x, 0) {
				most = x
			}
		}
		for i := range steps[from:end] {
			steps[from+i] = most / 127
		}
	}
	return steps
}

// RoundedBound returns the error that activations rounded to 8 bits add to [ErrorBound], for a row of A with these
// steps and a column w of B: 6·√(Σ steps²·w²/12). Rounding errors are independent and uniform over a step.
func RoundedBound(steps, w []float64) float64 {
	var squares float64
	for k, s := range steps {
		squares += s * s * w[k] * w[k]
	}
	return roundedDeviations * math.Sqrt(squares/12)
}

// RoundsActivations reports whether a kernel rounds a task's activations to 8 bits. See [ActivationRounder].
func RoundsActivations(k Kernel, t Task) bool {
	r, ok := k.(ActivationRounder)
	return ok && t.Quantized() && r.RoundsActivations(t)
}

// roundedActivations returns the check for kernels that round activations.
func (c *GemmCheck) roundedActivations() *GemmCheck {
	if c.rounds == nil {
		c.rounds = c.variant()
		c.rounds.rounded = true
	}
	return c.rounds
}

// roundingErrors is [RoundedBound] of each element of C.
func (o checkOperands) roundingErrors(s Shape) []float64 {
	squares := checkOperands{a: make([]float64, len(o.a)), b: make([]float64, len(o.b))}
	for i := range s.M {
		for k, step := range RoundingSteps(o.a[i*s.K:][:s.K]) {
			squares.a[i*s.K+k] = step * step / 12
		}
	}
	for i, w := range o.b {
		squares.b[i] = w * w
	}
	errors, _ := squares.product(s, false)
	for i, v := range errors {
		errors[i] = roundedDeviations * math.Sqrt(v)
	}
	return errors
}
