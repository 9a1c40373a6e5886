package cuda

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// TestPlansAreKept compares plans with testdata/plans.txt.gz, which makes each changed choice visible;
// -update-plans accepts the new ones.
func TestPlansAreKept(t *testing.T) {
	var text bytes.Buffer
	for _, a := range cudatest.Archs {
		for _, d := range kernels.DTypes() {
			writeGemmPlans(t, &text, a, d)
		}
	}
	cudatest.Golden(t, "plans.txt.gz", text.String())
}

func writeGemmPlans(t *testing.T, w *bytes.Buffer, a planning.Arch, d kernels.DType) {
	fmt.Fprintf(w, "%d with %d multiprocessors, %s\n", a.CC, a.SMs, d)
	times := make([]bytes.Buffer, len(families))
	for _, nk := range [][2]int{{14336, 4096}, {4096, 4096}, {4096, 14336}, {6144, 4096}, {28672, 8192}, {1000, 1000}, {32000, 2048},
		{130, 264}, {64, 32768}} {
		for _, m := range []int{1, 2, 5, 8, 9, 16, 17, 31, 64, 65, 100, 128, 190, 256, 257, 400, 512, 513, 1000, 1024, 2000, 3333, 4096,
			8192, 20000} {
			for _, o := range []gemm.Alignment{{A: 16, C: 16}, {A: d.Size(), C: d.Output().Size()}} {
				p := kernels.Task{Subject: kernels.Product(d, nk[0], nk[1]), M: m}
				if o.A < 16 {
					if m%3 != 0 && m != 1 && m != 4096 {
						continue
					}
					p.LDA, p.LDC = nk[1]+1, nk[0]+1
				}
				p, err := p.Normalized()
				if err != nil {
					t.Fatal(err)
				}
				q := gemm.Problem{Task: p, Aligned: o}
				fmt.Fprintf(w, "m%d n%d k%d %d", m, nk[0], nk[1], o.A)
				for i, f := range families {
					if f.Supports(a, q) != "" {
						continue
					}
					fmt.Fprintf(w, "; %s %s", f.Name(), f.Plan(a, q).Label)
					if c, ok := f.(planning.Chooser[gemm.Problem, gemm.Addresses]); ok {
						for _, plan := range c.Candidates(a, q) {
							fmt.Fprintf(&times[i], "%s %.6g\n", plan.Label, plan.Seconds)
						}
					}
				}
				best, _, ok := planning.Pick(families, a, q)
				if !ok {
					fmt.Fprintln(w, "; none")
					continue
				}
				fmt.Fprintf(w, "; auto %s\n", best.Name())
			}
		}
	}
	for i, f := range families {
		fmt.Fprintf(w, "%s candidates %x\n", f.Name(), sha256.Sum256(times[i].Bytes()))
	}
}
