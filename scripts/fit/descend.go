package main

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// Step sizes of the descent, as logarithms of constants.
const (
	difference  = 1e-3 // for slopes
	longestStep = 0.4
	enough      = 1e-4 // a step that ends the descent
	simplex     = 0.05 // the first one
)

// solve searches for the constants from a card's, within the given evaluations. Levenberg-Marquardt minimizes
// the smooth part; Nelder-Mead then minimizes everything, because regret has steps and no gradient.
func (p *problem) solve(card *calibration.Card, evaluations int) (err error) {
	p.card, p.left, p.least = card, evaluations, math.Inf(1)
	p.start = p.logs(card)
	p.best = p.start
	if p.rivals, err = p.samples.rivals(p.fitted.groups, card); err != nil {
		return err
	}
	if err := p.descend(p.left / 2); err != nil {
		return err
	}
	return p.refine()
}

func (p *problem) descend(evaluations int) error {
	until := p.left - evaluations
	at, err := p.evaluate(p.start)
	if err != nil {
		return err
	}
	n := len(p.start)
	damping := 1e-3
	for p.left-until > n {
		normal, slope, err := p.normalEquations(at)
		if err != nil {
			return err
		}
		improved := false
		for !improved && damping < 1e6 && p.left > until {
			step, ok := solveDamped(normal, slope, damping)
			damping *= 4
			if !ok {
				continue
			}
			x := make([]float64, n)
			longest := 0.
			for i := range x {
				x[i] = at.x[i] + step[i]
				longest = max(longest, math.Abs(step[i]))
			}
			next, err := p.evaluate(x)
			if err != nil {
				return err
			}
			if next.smooth < at.smooth {
				at, improved = next, true
				damping /= 40
			}
			if longest < enough {
				return nil
			}
		}
		if !improved {
			return nil
		}
	}
	return nil
}

// normalEquations returns the matrix of the weighted squares at a point, and the negative gradient. It takes
// one evaluation per constant.
func (p *problem) normalEquations(at point) (*mat.SymDense, *mat.VecDense, error) {
	n := len(at.x)
	weights := p.fittedWeights(at.residuals)
	columns := make([][]float64, n)
	for i := range columns {
		x := slices.Clone(at.x)
		by := difference
		if x[i]+by > p.origin[i]+math.Log(farthest) {
			by = -by
		}
		x[i] += by
		next, err := p.evaluate(x)
		if err != nil {
			return nil, nil, err
		}
		columns[i] = next.residuals
		for j := range columns[i] {
			columns[i][j] = (columns[i][j] - at.residuals[j]) / by
		}
	}
	normal, slope := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i := range columns {
		down := -pullWeight * (at.x[i] - p.origin[i])
		for k, w := range weights {
			down -= w * columns[i][k] * at.residuals[k]
		}
		slope.SetVec(i, down)
		for j := i; j < n; j++ {
			sum := 0.
			for k, w := range weights {
				sum += w * columns[i][k] * columns[j][k]
			}
			if i == j {
				sum += pullWeight
			}
			normal.SetSym(i, j, sum)
		}
	}
	return normal, slope, nil
}

// solveDamped solves the normal equations with a damped diagonal and limits the step. ok is false if they are
// singular.
func solveDamped(normal *mat.SymDense, slope *mat.VecDense, damping float64) (step []float64, ok bool) {
	n := slope.Len()
	damped := mat.NewSymDense(n, nil)
	damped.CopySym(normal)
	for i := range n {
		damped.SetSym(i, i, normal.At(i, i)*(1+damping))
	}
	var c mat.Cholesky
	var x mat.VecDense
	if !c.Factorize(damped) || c.SolveVecTo(&x, slope) != nil {
		return nil, false
	}
	step = make([]float64, n)
	for i := range step {
		step[i] = min(max(x.AtVec(i), -longestStep), longestStep)
	}
	return step, true
}

func (p *problem) refine() error {
	if p.left < 1 {
		return nil
	}
	var failed error
	settings := &optimize.Settings{FuncEvaluations: p.left,
		Converger: &optimize.FunctionConverge{Absolute: 1e-7, Iterations: 20 * len(p.best)}}
	_, err := optimize.Minimize(optimize.Problem{Func: func(x []float64) float64 {
		at, err := p.evaluate(x)
		if err != nil {
			failed = err
			return math.Inf(1)
		}
		return at.objective
	}}, slices.Clone(p.best), settings, &optimize.NelderMead{SimplexSize: simplex})
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("model %s: %w", p.model, err)
	}
	return nil
}
