package kernels

// GateBatches is the standing table of batches for type d: one product and several, in
// both layouts of B, right behind each other and with poison between them, decode and
// tails of M, N and K, one and all threads, packing ahead and inside.
func GateBatches(d DType) []Batch {
	var out []Batch
	add := func(products, m, n, k int, change func(*Batch)) {
		b := Batch{Problem: Problem{Shape: Shape{M: m, N: n, K: k}, DType: d}, Products: products}
		if change != nil {
			change(&b)
		}
		out = append(out, b)
	}
	transposed := func(b *Batch) { b.BLayout = Transposed }
	// apart puts so many rows between the operands of two products, behind rows that are
	// so many elements longer than they must be.
	apart := func(layout Layout, rows, longer int) func(*Batch) {
		return func(b *Batch) {
			b.BLayout = layout
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
	add(5, 17, 31, 33, func(b *Batch) { b.Threads = 1 })
	add(8, 33, 48, 64, apart(RowMajor, 16, 16))
	add(8, 33, 48, 64, apart(Transposed, 16, 16))
	add(3, 5, 40, 70, func(b *Batch) { b.PackInside = true })
	add(3, 70, 130, 517, func(b *Batch) { b.PackInside, b.BLayout = true, Transposed })
	add(2, 131, 259, 300, apart(RowMajor, 3, 0))
	return out
}
