package kernels

import (
	"cmp"
	"context"
	"runtime"
	"slices"
)

// standingDims are the sizes of a head that the standing table is run with, in turns.
var standingDims = []int{128, 64}

// CheckAttention runs the standing table of type dt, see [AttentionCases], on a device's
// attention and ends at the first failure, which is an [*AttentionError] where attention
// computed something else. A type that attention is not defined for and a device that refuses all
// have Passed 0 and no error.
func CheckAttention(ctx context.Context, d Device, attend func(Attention) (Launch, error), dt DType, seed uint64) (CheckSummary, error) {
	summaries, errs := CheckAttentions(ctx, d, []func(Attention) (Launch, error){attend}, dt, seed)
	return summaries[0], errs[0]
}

// CheckAttentions is [CheckAttention] of several ways to attend, which have the operands and
// references in common. Each has its summary and its error, at which it ends and the others go on.
// Operands and references of the cases ahead are computed meanwhile.
func CheckAttentions(ctx context.Context, d Device, ways []func(Attention) (Launch, error), dt DType, seed uint64) ([]CheckSummary, []error) {
	if dt != FP32 && dt != FP16 && dt != BF16 {
		refused := &Unsupported{Kernel: "attention", DType: dt, Reason: "attention has operands of fp32, fp16 and bf16"}
		return slices.Repeat([]CheckSummary{{Skipped: []error{refused}}}, len(ways)), make([]error, len(ways))
	}
	var cases []AttentionCase
	for turn, dim := range standingDims {
		for i, c := range AttentionCases(dt, dim) {
			if i%len(standingDims) == turn {
				cases = append(cases, c)
			}
		}
	}
	return checkAttentions(ctx, d, ways, cases, seed)
}

// mostAhead bounds how many cases are computed ahead: the largest takes some 100 MB.
const mostAhead = 8

// drawn is a case of the correctness check with its operands, or why there are none.
type drawn struct {
	check *AttentionCheck
	err   error
}

func checkAttentions(ctx context.Context, d Device, ways []func(Attention) (Launch, error), cases []AttentionCase, seed uint64) ([]CheckSummary, []error) {
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
	summaries, errs := make([]CheckSummary, len(ways)), make([]error, len(ways))
	for one := range ahead {
		drawn := <-one
		for i, attend := range ways {
			if errs[i] = cmp.Or(errs[i], ctx.Err(), drawn.err); errs[i] == nil {
				margin, err := drawn.check.Margin(ctx, d, attend)
				errs[i] = summaries[i].add(ctx, margin, err)
			}
		}
		if !slices.Contains(errs, nil) {
			break
		}
	}
	for i := range errs {
		errs[i] = cmp.Or(errs[i], ctx.Err())
	}
	return summaries, errs
}
