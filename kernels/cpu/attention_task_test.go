package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// The attention task must compute attention: prompts and single tokens match float64 sums over the same
// cache.
func TestAttentionTask(t *testing.T) {
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	heads := kernels.Dims{QueryHeads: 4, KVHeads: 2, HeadDim: 32}
	windowed := heads
	windowed.Window = 40
	for _, o := range []kernels.Operation{kernels.AttentionPrefill, kernels.AttentionDecode} {
		for _, dims := range []kernels.Dims{heads, windowed} {
			for _, m := range []int{1, 7, 39, 40, 41, 255, 256, 257, 300, 600} {
				s := kernels.Subject{Operation: o, DType: kernels.FP32, Dims: dims}
				t.Run(fmt.Sprintf("%v window %d m%d", o, dims.Window, m), func(t *testing.T) {
					checkTask(t, d, kernels.Task{Subject: s, M: m})
				})
			}
		}
	}
}

func checkTask(t *testing.T, d *Device, task kernels.Task) {
	impl, err := kernels.Find(d, task.Operation, "flash")
	if err != nil {
		t.Fatal(err)
	}
	if err := impl.Supports(task); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(task.M)))
	upload := func(n int64) (kernels.Buffer, []float64) {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(float32(rng.NormFloat64()))
		}
		host := make([]byte, 4*n)
		if err := kernels.Encode(kernels.FP32, v, host); err != nil {
			t.Fatal(err)
		}
		b, err := d.Alloc(int64(len(host)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		if err := b.Upload(0, host); err != nil {
			t.Fatal(err)
		}
		return b, v
	}
	raw, cache := upload(task.Stored(task.M) / 4)
	in, q := upload(task.InputElements(task.M))
	out, _ := upload(task.OutputElements(task.M))
	w, err := impl.Prepare(task, raw)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := impl.Bind(task, kernels.Operand{Buffer: in}, w, kernels.Operand{Buffer: out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 1); err != nil {
		t.Fatal(err)
	}
	host := make([]byte, 4*task.OutputElements(task.M))
	if err := out.Download(0, host); err != nil {
		t.Fatal(err)
	}
	got := make([]float64, task.OutputElements(task.M))
	if err := kernels.Decode(kernels.FP32, host, got); err != nil {
		t.Fatal(err)
	}
	first := 0
	if task.Operation == kernels.AttentionDecode {
		first = task.M - 1
	}
	dim, width := task.HeadDim, task.QueryHeads*task.HeadDim
	capacity := len(cache) / (2 * task.KVHeads * dim)
	for position := first; position < task.M; position++ {
		for head := range task.QueryHeads {
			row := q[(position-first)*width+head*dim:][:dim]
			keys := cache[head*task.KVHeads/task.QueryHeads*capacity*dim:]
			values := cache[(task.KVHeads+head*task.KVHeads/task.QueryHeads)*capacity*dim:]
			from := 0
			if task.Window > 0 {
				from = max(0, position-task.Window+1)
			}
			want, sum := make([]float64, dim), 0.0
			for key := from; key <= position; key++ {
				slot := key % capacity * dim
				score := 0.0
				for i := range dim {
					score += row[i] * keys[slot+i]
				}
				p := math.Exp(score / math.Sqrt(float64(dim)))
				sum += p
				for i := range dim {
					want[i] += p * values[slot+i]
				}
			}
			for i := range dim {
				if at := got[(position-first)*width+head*dim+i]; math.Abs(at-want[i]/sum) > 1e-5 {
					t.Fatalf("position %d head %d element %d is %g, expected %g", position, head, i, at, want[i]/sum)
				}
			}
		}
	}
}
