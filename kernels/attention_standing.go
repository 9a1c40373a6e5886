package kernels

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
)

// standingDims are the head sizes of the standard cases, used in turn.
var standingDims = []int{128, 64}

// CheckAttention runs the [AttentionCases] of type dt and stops at the first failure, an [*AttentionError]
// for a wrong result. If the type has no attention or the device refuses all cases, Passed is 0 and the error
// is nil.
func CheckAttention(ctx context.Context, d Device, attend func(Attention) (Launch, error), dt DType, seed uint64) (CheckSummary, error) {
	summaries, errs := CheckAttentions(ctx, d, []func(Attention) (Launch, error){attend}, dt, seed)
	return summaries[0], errs[0]
}

// CheckAttentions is [CheckAttention] for several kernels that share operands and references. Each has its
// own summary and error; one failure does not stop the others. Later cases are computed in the background.
func CheckAttentions(ctx context.Context, d Device, ways []func(Attention) (Launch, error), dt DType,
	seed uint64) ([]CheckSummary, []error) {
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

// gateAttention checks kernels that attend, and by tasks those that record launches. Kernels that only take time, on
// devices without [Attender], have no check.
func gateAttention(ctx context.Context, d Device, ks []Kernel, dt DType, seed uint64) ([]CheckSummary, []error) {
	var ways []func(Attention) (Launch, error)
	var byTask []Kernel
	for _, k := range ks {
		if a, ok := k.(AttentionKernel); ok {
			ways = append(ways, a.Attend)
		} else if _, ok := k.(Recorder); ok {
			byTask = append(byTask, k)
		} else {
			return make([]CheckSummary, len(ks)), slices.Repeat([]error{fmt.Errorf("check: kernel %s does not attend", k.Name())}, len(ks))
		}
	}
	if len(byTask) == 0 {
		return CheckAttentions(ctx, d, ways, dt, seed)
	}
	var attend, tasks struct {
		summaries []CheckSummary
		errs      []error
	}
	if len(ways) > 0 {
		attend.summaries, attend.errs = CheckAttentions(ctx, d, ways, dt, seed)
	}
	tasks.summaries, tasks.errs = checkAttentionTasks(ctx, d, byTask, dt, seed)
	summaries, errs := make([]CheckSummary, len(ks)), make([]error, len(ks))
	for i, k := range ks {
		from := &tasks
		if _, ok := k.(AttentionKernel); ok {
			from = &attend
		}
		summaries[i], errs[i] = from.summaries[0], from.errs[0]
		from.summaries, from.errs = from.summaries[1:], from.errs[1:]
	}
	return summaries, errs
}

// mostAhead limits the cases computed in advance: the largest takes some 100 MB.
const mostAhead = 8

type drawn struct {
	check *AttentionCheck
	err   error
}

func checkAttentions(ctx context.Context, d Device, ways []func(Attention) (Launch, error), cases []AttentionCase,
	seed uint64) ([]CheckSummary, []error) {
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
