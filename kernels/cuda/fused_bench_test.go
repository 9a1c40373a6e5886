//go:build cuda

package cuda

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
)

// BenchmarkFused times products with epilogues by kernel, and those without, in turns. Weights come from memory: two copies of each
// take more than L2 has.
func BenchmarkFused(b *testing.B) {
	d := gpu(b)
	const dt, rounds, block = kernels.BF16, 7, 400e-6
	kinds := []string{"auto", "auto-separate", "cublaslt", "cublaslt-separate"}
	rows := []int{1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
	for _, nk := range [][2]int{{14336, 4096}, {4096, 14336}} {
		product := kernels.Linear(dt, nk[0], nk[1])
		fused := product
		fused.Operation, fused.Epilogue = kernels.FusedGEMM, kernels.Bias
		var raws []kernels.Buffer
		for i := range 2 {
			raw := gputest.Buffer(b, d, fused.Stored(1))
			if err := raw.Fill(kernels.Normal, dt, fused.Stored(1)/2, uint64(i+1)); err != nil {
				b.Fatal(err)
			}
			raws = append(raws, raw)
		}
		elements := int64(8192 * (nk[0] + nk[1])) // activations, then a residual
		a, c := gputest.Buffer(b, d, elements*2), gputest.Buffer(b, d, int64(8192*nk[0]*2))
		if err := a.Fill(kernels.Normal, dt, elements, 9); err != nil {
			b.Fatal(err)
		}
		for _, e := range []kernels.Epilogue{0, kernels.Bias, kernels.Bias + kernels.ReLU, kernels.Bias + kernels.TanhGELU,
			kernels.Bias + kernels.GELU, kernels.Residual, kernels.Gated} {
			for _, m := range rows {
				task := kernels.Task{Subject: product, M: m}
				if e != 0 {
					task.Subject, task.Epilogue = fused, e
				}
				var names []string
				var launches [][]kernels.Launch
				var samples [][]float64
				for _, k := range d.Kernels(task.Operation) {
					if slices.Contains(kinds, k.Name()) && k.Supports(task) == nil {
						var copies []kernels.Launch
						for _, raw := range raws {
							w, err := k.Prepare(task, raw)
							if err != nil {
								b.Fatal(err)
							}
							defer w.Close()
							l, err := k.Bind(task, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
							if err != nil {
								b.Fatal(err)
							}
							copies = append(copies, l)
						}
						names, launches, samples = append(names, k.Name()), append(launches, copies), append(samples, nil)
					}
				}
				n := make([]int, len(names))
				for range rounds + 1 {
					for i := range names {
						span, err := d.Execute(b.Context(), launches[i], max(2, n[i]))
						if err != nil {
							b.Fatal(err)
						}
						seconds := span.Seconds / float64(max(2, n[i]))
						if n[i] > 0 {
							samples[i] = append(samples[i], seconds)
						}
						n[i] = max(2, int(block/seconds))
					}
				}
				line := fmt.Sprintf("fused n%d k%d m%d epilogue %d", nk[0], nk[1], m, int(e))
				for i, name := range names {
					slices.Sort(samples[i])
					label := ""
					if name == "auto" {
						label = " [" + launches[i][0].Label() + "]"
					}
					line += fmt.Sprintf(" | %s %.2f%s", name, 1e6*samples[i][rounds/2], label)
				}
				fmt.Println(line)
			}
		}
	}
}
