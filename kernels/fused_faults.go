package kernels

// fusedCases have every epilogue, at sizes around tiles. With a small K the sums are near 0, where activations bend.
func fusedCases(dt DType) []Task {
	at := func(m, n, k int, e Epilogue, layout Layout) Task {
		if e.IsGated() {
			n += n % 2
		}
		return Task{Subject: Subject{DType: dt, Dims: Dims{N: n, K: k, Epilogue: e}, Layout: layout}, M: m}
	}
	out := []Task{at(1, 1, 1, Bias+ReLU, Transposed), at(1, 517, 259, Bias+GELU, Transposed), at(131, 259, 517, Bias+SiLU, Transposed),
		at(1, 1, 1, Gated, Transposed), at(1, 1, 1, Bias+Residual, Transposed), at(67, 322, 131, Bias+Gated, Transposed),
		at(131, 259, 517, Residual, Transposed)}
	sizes := []Shape{{M: 1, N: 64, K: 16}, {M: 5, N: 33, K: 3}, {M: 18, N: 97, K: 37}, {M: 33, N: 127, K: 64}}
	for i, e := range Epilogues() {
		s := sizes[i%len(sizes)]
		out = append(out, at(s.M, s.N, s.K, e, Transposed), at(2*s.M, s.N+1, s.K, e, RowMajor))
	}
	return out
}

// fusedFaults are what epilogues get wrong.
var fusedFaults = []Fault{
	{Name: "a column has the bias of the next", Compute: epilogueFault(func(t Task, w *fusedWay) {
		w.bias = func(column int) int { return (column + 1) % t.N }
	})},
	{Name: "the columns of a tile of 32 have the bias of the first tile", Compute: epilogueFault(func(_ Task, w *fusedWay) {
		w.bias = func(column int) int { return column % 32 }
	})},
	{Name: "there is no bias", Compute: epilogueFault(func(_ Task, w *fusedWay) {
		w.bias = func(int) int { return -1 }
	})},
	{Name: "each part of a split K has the bias", Compute: epilogueFault(func(_ Task, w *fusedWay) {
		of := w.of
		w.of = func(sum, bias, other float64) float64 { return of(sum+bias, bias, other) }
	})},
	{Name: "the activation comes before the bias", Compute: epilogueFault(func(t Task, w *fusedWay) {
		w.of = func(sum, bias, other float64) float64 {
			return t.Epilogue.join(steps[t.Epilogue/2].of(sum)+bias, other)
		}
	})},
	{Name: "there is no activation", Compute: epilogueFault(func(t Task, w *fusedWay) {
		w.of = func(sum, bias, other float64) float64 { return t.Epilogue.join(sum+bias, other) }
	})},
	{Name: "gate and up are swapped", Compute: epilogueFault(func(t Task, w *fusedWay) {
		w.halves = func(column int) (gate, up int) { return column + t.N/2, column }
	})},
	{Name: "gate and up alternate", Compute: epilogueFault(func(_ Task, w *fusedWay) {
		w.halves = func(column int) (gate, up int) { return 2 * column, 2*column + 1 }
	})},
	{Name: "up has the bias of the gate", Compute: epilogueFault(func(t Task, w *fusedWay) {
		if t.Epilogue.IsGated() {
			w.bias = func(column int) int { return column % (t.N / 2) }
		}
	})},
	{Name: "a row has the residual of the next", Compute: epilogueFault(func(t Task, w *fusedWay) {
		w.residual = func(row, column int) (int, int) { return (row + 1) % t.M, column }
	})},
	{Name: "a column has the residual of the next", Compute: epilogueFault(func(t Task, w *fusedWay) {
		w.residual = func(row, column int) (int, int) { return row, (column + 1) % t.N }
	})},
	{Name: "there is no residual", Compute: epilogueFault(func(t Task, w *fusedWay) {
		if of := w.of; t.Epilogue.HasResidual() {
			w.of = func(sum, bias, _ float64) float64 { return of(sum, bias, 0) }
		}
	})},
}

// epilogueFault computes in another way.
func epilogueFault(change func(Task, *fusedWay)) func(t Task, in, stored []float64) []float64 {
	return func(t Task, in, stored []float64) []float64 {
		way := t.fusedWay()
		change(t, &way)
		out, _ := fusedProducts(t, in, stored, way)
		return out
	}
}
