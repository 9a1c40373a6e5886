package quantised

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"pgregory.net/rapid"
)

func fewRows(t *testing.T, r *rapid.T, most int) (planning.Arch, Problem) {
	a := cudatest.H200
	a.SMs = rapid.SampledFrom([]int{1, 7, 16, 114, 132}).Draw(r, "multiprocessors")
	m, n, k := rapid.IntRange(1, most).Draw(r, "m"), rapid.IntRange(1, 40000).Draw(r, "n"), rapid.IntRange(1, 400).Draw(r, "k")*64
	bits := rapid.SampledFrom([]int{4, 8}).Draw(r, "bits")
	return a, problem(t, m, n, k, kernels.BF16, kernels.IntegerWeights(bits, 32, false), 16)
}

// The windows of non-empty parts cover K, blocks cover all rows, and shared memory is not overwritten while
// it is still read.
func TestNarrowShares(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, p := fewRows(t, r, 16)
		for _, n := range narrows(a, p) {
			part := n.windows * narrowSteps
			if n.tokens < p.M || part*n.parts < n.steps || part*(n.parts-1) >= n.steps || n.steps < narrowSteps {
				t.Fatalf("%+v: windows of %d steps", n, part)
			}
			if rows := n.groups * narrowRows; rows < p.N || rows >= p.N+narrowRows {
				t.Fatalf("%+v: %d rows", n, rows)
			}
			if n.rowBlocks < 1 || n.groups/n.rowBlocks < 1 || n.rowBlocks*n.parts > max(a.SMs, n.parts) {
				t.Fatalf("%+v: %d blocks", n, n.rowBlocks)
			}
			for warp := range narrowWarps {
				if got := warp * planning.DivideUp(1024, n.windows) >> 10; got != warp/n.windows {
					t.Fatalf("%+v: warp %d is of set %d", n, warp, got)
				}
			}
			if n.sets() < 1 || n.scratch()%16 != 0 || n.scratch() < part*p.M*256+16 || n.parts > 1 && n.scratch() < n.sums()+16 {
				t.Fatalf("%+v: %d sets, sums from %d on", n, n.sets(), n.scratch())
			}
		}
	})
}

// TestResidentShares tests the same for quantised_resident.cuh, whose parts have even numbers of steps and a
// barrier for each.
func TestResidentShares(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, p := fewRows(t, r, 64)
		for _, s := range residents(a, p) {
			last := s.steps - s.share*(s.parts-1)
			if s.tokens < p.M || s.share%2 != 0 || last < 2 || last%2 != 0 || last > s.share || (s.share+1)*8 > residentBarriers {
				t.Fatalf("%+v: parts of %d steps, the last of %d", s, s.share, last)
			}
			if rows := s.units * residentRows; rows < p.N || rows >= p.N+residentRows {
				t.Fatalf("%+v: %d rows", s, rows)
			}
			if s.rowBlocks < 1 || s.units/s.rowBlocks < 1 || s.rowBlocks*s.parts > max(a.SMs, s.parts) {
				t.Fatalf("%+v: %d blocks", s, s.rowBlocks)
			}
			if s.parked()%128 != 0 || s.parked() < s.share*s.tokens*256 || s.parts > 1 && s.parked() < s.most()*s.unitSums() {
				t.Fatalf("%+v: barriers at %d", s, s.parked())
			}
			if behind := s.shared() - s.parked() - residentBarriers; s.parts > 1 &&
				behind < (s.rounds()-1)*residentWarpgroups*s.unitSums() {
				t.Fatalf("%+v: %d bytes for sums", s, behind)
			}
		}
	})
}
