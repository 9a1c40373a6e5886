package cuda

// tileCall launches a kernel of one tile a block: struct TileParams of tiles.cuh.
// alignment is what the kernel's loads of A need, in bytes.
func tileCall(kernel string, p gemmProblem, at addresses, m, n, group, threads, alignment int) call {
	tilesM, tilesN := divideUp(p.M, m), divideUp(p.N, n)
	c := call{kernel: kernel, grid: dim3{x: tilesM * tilesN}, block: dim3{x: threads}}
	c.args.pointer(at.a).pointer(at.b).pointer(at.c).int64(int64(p.LDA)).int64(int64(at.ldb)).int64(int64(p.LDC))
	c.args.int32(p.M, p.N, p.K, tilesM, tilesN, group, oneIf(p.aligned.a >= alignment))
	return c
}
