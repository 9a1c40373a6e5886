package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// AskChoices asks the kernels of the inferred series of a plan's shard what they would run at
// each M. Series of kernels that do not tell, and of devices that are not there, are left out;
// so are Ms that a kernel does not support.
func AskChoices(ctx context.Context, devices []kernels.Device, plan *Plan) (map[results.SeriesKey]results.Choices, error) {
	out := map[results.SeriesKey]results.Choices{}
	for _, d := range devices {
		for _, s := range plan.of(d.Spec().ID).Series {
			if !s.Infer || s.Operation != kernels.GEMM || s.Products > 0 {
				continue
			}
			g, err := kernels.FindGemm(d, s.Kernel)
			if err != nil {
				return nil, err
			}
			teller, ok := g.(kernels.ChoiceTeller)
			if !ok {
				continue
			}
			told, err := s.ask(ctx, teller)
			if err != nil {
				return nil, fmt.Errorf("asking what would run in %v: %w", s.SeriesKey, err)
			}
			if len(told) > 0 {
				out[s.SeriesKey] = told
			}
		}
	}
	return out, nil
}

// ask collects what would run at each M of a series.
func (s PlannedSeries) ask(ctx context.Context, g kernels.ChoiceTeller) (results.Choices, error) {
	var told results.Choices
	joined := false
	for _, m := range s.Ms {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		c, err := g.Choice(kernels.Problem{Shape: kernels.Shape{M: m, N: s.N, K: s.K}, DType: s.DType, BLayout: s.Layout,
			Threads: s.Threads, PackInside: s.PackInside})
		var no *kernels.Unsupported
		switch {
		case errors.As(err, &no):
			joined = false
			continue
		case err != nil:
			return nil, fmt.Errorf("m%d: %w", m, err)
		}
		told = told.Add(m, results.KindOf(c, m, s.N), joined)
		joined = true
	}
	return told, nil
}
