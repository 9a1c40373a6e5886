package kernels

import (
	"context"
	"slices"
)

// attentionTasks are the tasks that check kernels without [AttentionKernel]: one token and many, counts around tiles,
// windows, and each way of sharing key-value heads.
func attentionTasks(dt DType) []Task {
	var out []Task
	add := func(o Operation, query, kv, dim, window int, ms ...int) {
		for _, m := range ms {
			out = append(out, Task{M: m, Subject: Subject{Operation: o, DType: dt,
				Dims: Dims{QueryHeads: query, KVHeads: kv, HeadDim: dim, Window: window}}})
		}
	}
	for _, dim := range standingDims {
		add(AttentionPrefill, 8, 2, dim, 0, 5, 1, 16, 17, 64, 100, 129)
		add(AttentionPrefill, 4, 4, dim, 0, 33, 128)
		add(AttentionPrefill, 8, 1, dim, 32, 7, 70, 257)
		add(AttentionDecode, 8, 2, dim, 0, 1, 2, 15, 64, 65, 257, 1000)
		add(AttentionDecode, 4, 4, dim, 0, 100, 2048)
		add(AttentionDecode, 8, 1, dim, 32, 16, 33, 700)
	}
	return out
}

// attentionTaskCase draws a task's queries of one set, and keys and values of another. Slots that no row sees are NaN.
func attentionTaskCase(t Task, data attentionData, seed uint64, of operandSets) (elementCase, error) {
	a := t.Attention()
	c, err := AttentionCase{Rows: a.Rows, Heads: a.Heads, DType: t.DType, Window: t.Window, Position: t.M - a.Rows,
		Capacity: a.Cache.Capacity, Length: t.M, Scale: a.Scale}.Normalized()
	if err != nil {
		return elementCase{}, err
	}
	o := newAttentionOperands(c, data, seedOf(seed, of.stored))
	if of.in != of.stored {
		o.q = newAttentionOperands(c, data, seedOf(seed, of.in)).q
	}
	size, row := t.DType.Size(), int(t.InputElements(t.M))/a.Rows
	e := elementCase{in: guarded(inputPoison(t.DType), len(o.q), int(t.InputElements(1)))}
	if err := Encode(t.DType, o.q, e.in[guardOf(row)*size:][:len(o.q)*size]); err != nil {
		return e, err
	}
	e.stored = slices.Repeat(inputPoison(t.DType), int(t.Stored(t.M))/size)
	slots, line := a.Heads.KV*c.Capacity, a.Heads.Dim*size
	for part, x := range [][]float64{o.k, o.v} {
		for i := range slots {
			v := o.cacheRow(c, x, i)
			if v == nil {
				continue
			}
			if err := Encode(t.DType, v, e.stored[(part*slots+i)*line:][:line]); err != nil {
				return e, err
			}
		}
	}
	e.want, e.bound = o.attend(c)
	return e, nil
}

// checkAttentionTasks checks kernels by tasks, whose keys and values are one stored operand.
func checkAttentionTasks(ctx context.Context, d Device, ks []Kernel, dt DType, seed uint64) ([]CheckSummary, []error) {
	summaries, errs := make([]CheckSummary, len(ks)), make([]error, len(ks))
	for _, t := range attentionTasks(dt) {
		blank := guarded(outputPoison(t.OutputType()), int(t.OutputElements(t.M)), int(t.OutputElements(1)))
		var cases []elementCase // drawn for the first kernel that supports the task
		for i, k := range ks {
			if errs[i] != nil {
				continue
			}
			margin, failed := 0.0, k.Supports(t)
			for _, data := range []attentionData{normalScores, peakedScores, levelScores} {
				if failed != nil || len(cases) == 3 {
					break
				}
				var of elementCase
				of, failed = attentionTaskCase(t, data, seed, operandSets{})
				cases = append(cases, of)
			}
			if failed == nil {
				margin, failed = checkElements(ctx, d, k, t, cases, blank, 2, func(of operandSets) (elementCase, error) {
					return attentionTaskCase(t, normalScores, seed, of)
				})
			}
			errs[i] = summaries[i].add(ctx, margin, failed)
		}
	}
	return summaries, errs
}
