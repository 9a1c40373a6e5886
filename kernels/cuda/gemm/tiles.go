package gemm

import "github.com/gemmaudit/gemmaudit/kernels/cuda/planning"

// TileCall launches a kernel of one tile per block with struct TileParams of tiles.cuh. alignment is the
// bytes that the kernel's loads of A need.
func TileCall(kernel string, p Problem, at Addresses, m, n, group, threads, alignment int) planning.Call {
	tilesM, tilesN := planning.DivideUp(p.M, m), planning.DivideUp(p.N, n)
	c := planning.Call{Kernel: kernel, Grid: planning.Dim3{X: tilesM * tilesN}, Block: planning.Dim3{X: threads}}
	c.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C).Int64(int64(p.LDA)).Int64(int64(at.LDB)).Int64(int64(p.LDC))
	c.Args.Int32(p.M, p.N, p.K, tilesM, tilesN, group, planning.OneIf(p.Aligned.A >= alignment))
	return c
}
