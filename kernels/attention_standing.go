package kernels

import (
	"context"
	"errors"
	"runtime"
)

// standingDims are the sizes of a head that the standing table is run with, in turns.
var standingDims = []int{128, 64}

// CheckAttention runs the standing table of type dt, see [AttentionCases], on a device's
// attention and ends at the first failure, which is an [*AttentionError] where attention
// computed something else. A type that attention is not defined for and a device that refuses all
// have Passed 0 and no error.
// Operands and references of the cases ahead are computed meanwhile.
func CheckAttention(ctx context.Context, d Device, attend func(Attention) (Launch, error), dt DType, seed uint64) (CheckSummary, error) {
	if dt != FP32 && dt != FP16 && dt != BF16 {
		refused := &Unsupported{Kernel: "attention", DType: dt, Reason: "attention has operands of fp32, fp16 and bf16"}
		return CheckSummary{Skipped: []error{refused}}, nil
	}
	var cases []AttentionCase
	for turn, dim := range standingDims {
		for i, c := range AttentionCases(dt, dim) {
			if i%len(standingDims) == turn {
				cases = append(cases, c)
			}
		}
	}
	return gateAttentions(ctx, d, attend, cases, seed)
}

// mostAhead bounds how many cases are computed ahead: the largest takes some 100 MB.
const mostAhead = 8

// drawn is a case of the correctness check with its operands, or why there are none.
type drawn struct {
	check *AttentionCheck
	err   error
}

func gateAttentions(ctx context.Context, d Device, attend func(Attention) (Launch, error), cases []AttentionCase, seed uint64) (CheckSummary, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ahead := make(chan chan drawn, min(runtime.GOMAXPROCS(0), mostAhead))
	go func() {
		defer close(ahead)
		for _, c := range cases {
			one := make(chan drawn, 1)
			select {
			case ahead <- one:
			case <-ctx.Done():
				return
			}
			go func() {
				check, err := NewAttentionCheck(c, seed)
				one <- drawn{check, err}
			}()
		}
	}()
	var s CheckSummary
	for one := range ahead {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		drawn := <-one
		if drawn.err != nil {
			return s, drawn.err
		}
		margin, err := drawn.check.Margin(ctx, d, attend)
		var unsupported *Unsupported
		switch {
		case errors.As(err, &unsupported):
			s.Skipped = append(s.Skipped, err)
		case err != nil:
			return s, err
		default:
			s.Passed++
			s.Margin = max(s.Margin, margin)
		}
	}
	return s, ctx.Err()
}
