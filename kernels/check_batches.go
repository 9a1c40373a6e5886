package kernels

// GateBatches returns the standard batches for type d: one product and several, both layouts of B, with and
// without gaps, decode and tails of M, N and K, one and all threads, B packed ahead and inside.
func GateBatches(d DType) []Task {
	var out []Task
	add := func(products, m, n, k int, change func(*Task)) {
		b := Task{Subject: Product(d, n, k), M: m}.Batch(products)
		if change != nil {
			change(&b)
		}
		out = append(out, b)
	}
	transposed := func(b *Task) { b.Layout = Transposed }
	// apart puts rows rows between two products' operands and pads rows by longer elements.
	apart := func(layout Layout, rows, longer int) func(*Task) {
		return func(b *Task) {
			b.Layout = layout
			rowsB, colsB := b.sidesOfB()
			b.LDA, b.LDB, b.LDC = b.K+longer, colsB+longer, b.N+longer
			b.StrideA, b.StrideB, b.StrideC = (b.M+rows)*b.LDA, (rowsB+rows)*b.LDB, (b.M+rows)*b.LDC
		}
	}
	add(1, 3, 5, 7, nil)
	add(2, 1, 64, 64, transposed)
	add(3, 1, 130, 259, apart(RowMajor, 1, 3))
	add(3, 7, 33, 65, apart(Transposed, 2, 5))
	add(4, 16, 64, 128, nil)
	add(4, 16, 64, 128, transposed)
	add(5, 17, 31, 33, apart(Transposed, 1, 0))
	add(5, 17, 31, 33, func(b *Task) { b.Threads = 1 })
	add(8, 33, 48, 64, apart(RowMajor, 16, 16))
	add(8, 33, 48, 64, apart(Transposed, 16, 16))
	add(3, 5, 40, 70, func(b *Task) { b.PackInside = true })
	add(3, 70, 130, 517, func(b *Task) { b.PackInside, b.Layout = true, Transposed })
	add(2, 131, 259, 300, apart(RowMajor, 3, 0))
	return out
}
