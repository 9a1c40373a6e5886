package kernels

import "slices"

// checkedSizes are rows of groups around the sizes of tiles, with idle groups at both ends and in between.
var checkedSizes = []int{0, 1, 15, 16, 17, 0, 0, 63, 64, 65, 2, 127, 128, 129, 33, 0}

// groupedCases are routings of every kind: idle groups, one row, all rows in one group, more groups than rows.
func groupedCases(dt DType) []Task {
	at := func(m int, d Dims) Task { return Task{Subject: Subject{DType: dt, Dims: d, Layout: Transposed}, M: m} }
	table := RecordedRouting{Groups: len(checkedSizes), Rows: map[int][]int{}}
	sum := 0
	for _, rows := range checkedSizes {
		sum += rows
	}
	table.Rows[sum] = checkedSizes
	one := make([]int, len(checkedSizes))
	one[9] = 70
	table.Rows[70] = one
	hash, err := table.Register()
	if err != nil {
		return nil
	}
	out := []Task{
		at(1, Dims{N: 1, K: 1, Groups: 1}),
		at(1, Dims{N: 48, K: 64, Groups: 4}),
		at(5, Dims{N: 80, K: 96, Groups: 16}),
		at(67, Dims{N: 33, K: 35, Groups: 4}),
		at(96, Dims{N: 128, K: 256, Groups: 8, TopK: 2, Skew: 100, Draw: 1}),
		at(41, Dims{N: 64, K: 128, Groups: 32, TopK: 4, Draw: 7}),
		at(sum, Dims{N: 96, K: 136, Groups: len(checkedSizes), Routing: hash}),
		at(70, Dims{N: 72, K: 64, Groups: len(checkedSizes), Routing: hash}),
	}
	rows := at(40, Dims{N: 40, K: 56, Groups: 3, TopK: 1, Skew: MaxSkew, Draw: 3})
	rows.Layout = RowMajor
	out = append(out, rows)
	for _, f := range groupedFormats(dt) {
		for _, t := range []Task{
			at(1, Dims{N: 1, K: 2, Groups: 1}),
			at(5, Dims{N: 33, K: 64, Groups: 16}),
			at(37, Dims{N: 272, K: 384, Groups: 4, TopK: 2, Skew: 100, Draw: 1}),
			at(41, Dims{N: 72, K: 128, Groups: 32, TopK: 4, Draw: 7}),
			at(70, Dims{N: 136, K: 256, Groups: len(checkedSizes), Routing: hash}),
			at(67, Dims{N: 200, K: 320, Groups: 3}),
		} {
			if t.Weights = f.with(dt, t.K); t.Weights.check(t.K) == nil {
				out = append(out, t)
			}
		}
	}
	return out
}

// groupedFormats are the formats of quantized weights in the cases of a type of activations.
func groupedFormats(dt DType) (out []WeightFormat) {
	for _, of := range weightTypes {
		switch {
		case of.Activations == dt && of.Scale == FP32:
			block := of.Format(128)
			block.GroupN = 128
			out = append(out, block, of.Format(128), of.Format(0))
		case of.Activations == "" && (dt == FP16 || dt == BF16):
			out = append(out, of.Format(32), of.Format(0))
			if of.Levels == nil {
				out = append(out, of.Format(64).WithZeroPoints(true))
			}
		}
	}
	return out
}

// groupedFaults are what schedulers over groups get wrong.
var groupedFaults = []Fault{
	{Name: "the first row of a group has the weights of the group before it", Compute: misrouted(func(groups []int) {
		for row := len(groups) - 1; row > 0; row-- {
			if groups[row] != groups[row-1] {
				groups[row] = groups[row-1]
			}
		}
	})},
	{Name: "the last row of a group has the weights of the next", Compute: misrouted(func(groups []int) {
		for row := range len(groups) - 1 {
			if groups[row] != groups[row+1] {
				groups[row] = groups[row+1]
			}
		}
	})},
	{Name: "an idle group is not skipped", Compute: func(t Task, in, stored []float64) []float64 {
		rows, _ := t.GroupRows(t.M)
		return misrouted(func(groups []int) {
			for row, group := range groups {
				if group > 0 && rows[group-1] == 0 {
					groups[row] = group - 1
				}
			}
		})(t, in, stored)
	}},
	{Name: "the last row of a group is left out", Inject: func(t Task, out []float64) {
		parts, _ := t.GroupedParts()
		for _, p := range parts {
			clear(out[(p.Row+p.M-1)*t.N:][:t.N])
		}
	}},
	{Name: "the weights of the first group serve all", Compute: misrouted(func(groups []int) { clear(groups) })},
	{Name: "a group has the weights' scales of the next", Applies: Task.Quantized, Compute: groupedFault(func(t Task, w *groupedWay) {
		w.weight = func(group, n, k int) (int, int, int) { return (group + 1) % t.Groups, n, k }
	})},
	{Name: "weights have the scale of the next group of K", Applies: Task.Quantized, Compute: groupedFault(func(t Task, w *groupedWay) {
		_, groups := t.weightGroups()
		w.weight = func(group, n, k int) (int, int, int) { return group, n, (k + 1) % groups }
	})},
	{Name: "weights have the scale of the next group of N", Applies: Task.Quantized, Compute: groupedFault(func(t Task, w *groupedWay) {
		groups, _ := t.weightGroups()
		w.weight = func(group, n, k int) (int, int, int) { return group, (n + 1) % groups, k }
	})},
	{Name: "the scales of weights are transposed", Applies: Task.Quantized, Compute: groupedFault(func(t Task, w *groupedWay) {
		rows, columns := t.weightGroups()
		w.weight = func(group, n, k int) (int, int, int) {
			at := k*rows + n
			return group, at / columns, at % columns
		}
	})},
	{Name: "the last row of a group has the activations' scales of the next row", Applies: Task.Scaled, Compute: groupedFault(
		func(t Task, w *groupedWay) {
			w.activation = func(row, k int) (int, int) {
				if row+1 < t.M && w.groups[row] != w.groups[row+1] {
					row++
				}
				return row, k
			}
		})},
	{Name: "the activations' scales of each group begin with those of the first row", Applies: Task.Scaled, Compute: groupedFault(
		func(_ Task, w *groupedWay) {
			w.activation = func(row, k int) (int, int) { return row - slices.Index(w.groups, w.groups[row]), k }
		})},
	{Name: "activations have the scale of the next group of K", Applies: Task.Scaled, Compute: groupedFault(func(t Task, w *groupedWay) {
		w.activation = func(row, k int) (int, int) { return row, (k + 1) % t.scaleGroups() }
	})},
	{Name: "the scales of activations are transposed", Applies: Task.Scaled, Compute: groupedFault(func(t Task, w *groupedWay) {
		w.activation = func(row, k int) (int, int) {
			at := row*t.scaleGroups() + k
			return at % t.M, at / t.M
		}
	})},
}

// misrouted computes with other groups of the rows.
func misrouted(change func(groups []int)) func(t Task, in, stored []float64) []float64 {
	return groupedFault(func(_ Task, w *groupedWay) { change(w.groups) })
}

// groupedFault computes in another way.
func groupedFault(change func(Task, *groupedWay)) func(t Task, in, stored []float64) []float64 {
	return func(t Task, in, stored []float64) []float64 {
		way := t.groupedWay()
		change(t, &way)
		out, _ := way.products(t, in, stored)
		return out
	}
}
