//go:build cuda

package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/hopper"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/mma"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Grouped products, with routings of every kind: idle groups, a row, all rows in one group.
func TestGrouped(t *testing.T) {
	d := gpu(t)
	for _, k := range d.Kernels(kernels.GroupedGEMM) {
		t.Run(k.Name(), func(t *testing.T) {
			loop, _ := k.(*kernels.GroupLoop)
			passed, multiplies := 0, loop == nil // a loop over a kernel of packed weights alone multiplies no group
			for _, dt := range kernels.DTypes() {
				if loop != nil && loop.Of.Supports(kernels.Task{Subject: kernels.Product(dt, 64, 64), M: 8}) == nil {
					multiplies = true
				}
				found, errs := kernels.GroupedGEMM.Definition().Gate(t.Context(), d, []kernels.Kernel{k}, dt, 1)
				if errs[0] != nil {
					t.Errorf("%s: %v", dt, errs[0])
				}
				passed += found[0].Passed
				t.Logf("%s: %d cases", dt, found[0].Passed)
			}
			if passed == 0 && multiplies {
				t.Error("refuses every grouped product")
			}
		})
	}
}

// persistent are the families of kernels for all groups.
var persistent = []planning.Chooser[gemm.Groups, gemm.GroupAddresses]{hopper.Grouped{}, mma.Grouped{}}

// Every launch that a persistent kernel may choose, not only the fastest: all tiles and blocks, clusters, tiles that are split.
func TestGroupedWays(t *testing.T) {
	d := gpu(t)
	for _, f := range persistent {
		t.Run(f.Name(), func(t *testing.T) {
			k := gemm.NewGroupChooser(d.Device, f).(kernels.Planned)
			passed := 0
			for n := range 33 {
				if testing.Short() && n%4 != 0 {
					continue
				}
				found, errs := kernels.GroupedGEMM.Definition().Gate(t.Context(), d, []kernels.Kernel{k.Plan(n)}, kernels.BF16, 1)
				if errs[0] != nil {
					t.Errorf("plan %d: %v", n, errs[0])
				}
				passed += found[0].Passed
			}
			t.Logf("%d cases", passed)
			if passed == 0 {
				t.Skip("the kernel does not run here")
			}
		})
	}
}

// Groups with bands of tiles, of different sizes, against a kernel of products for each group.
func TestGroupedLarge(t *testing.T) {
	d := gpu(t)
	if testing.Short() {
		t.Skip("the gate's sizes are enough to find races")
	}
	for _, f := range persistent {
		t.Run(f.Name(), func(t *testing.T) {
			dims := kernels.Dims{N: 2000, K: 1160, Groups: 9, TopK: 1, Skew: 100, Draw: 5}
			task := cudatest.Grouped(t, f.Name(), 9000, kernels.BF16, dims)
			loop, err := kernels.Find(d, kernels.GroupedGEMM, "tiled")
			if err != nil {
				t.Fatal(err)
			}
			own := gemm.NewGroupKernel(d.Device, f.Name(), f, false)
			if err := own.Supports(task); err != nil {
				t.Skip(err)
			}
			size := int64(task.DType.Size())
			a := gputest.Buffer(t, d, int64(task.M*task.K)*size)
			b := gputest.Buffer(t, d, int64(task.Groups*task.N*task.K)*size)
			for i, buffer := range []kernels.Buffer{a, b} {
				if err := buffer.Fill(kernels.Normal, task.DType, buffer.Bytes()/size, uint64(i+1)); err != nil {
					t.Fatal(err)
				}
			}
			var out [2][]byte
			for i, k := range []kernels.Kernel{loop, own} {
				c := gputest.Buffer(t, d, int64(task.M*task.N)*size)
				w, err := k.Prepare(task, b)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				l, err := k.Bind(task, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
				if err != nil {
					t.Fatal(err)
				}
				out[i] = make([]byte, c.Bytes())
				if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 2); err != nil {
					t.Fatal(err)
				}
				if err := c.Download(0, out[i]); err != nil {
					t.Fatal(err)
				}
			}
			bf16 := func(out []byte, i int) float64 {
				return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(out[2*i:])) << 16))
			}
			wrong := 0
			for i := range task.M * task.N {
				// Both round sums of about √K.
				if x, y := bf16(out[0], i), bf16(out[1], i); !(math.Abs(x-y) <= 0.01*math.Abs(x)+0.01) {
					if wrong++; wrong < 9 {
						t.Errorf("row %d, column %d: %g, expected %g", i/task.N, i%task.N, y, x)
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d elements differ", wrong)
			}
		})
	}
}

// With gaps between the groups, rows are those of groups that follow each other, bit for bit, and the gaps of C are left alone.
func TestGroupedMasked(t *testing.T) {
	for _, f := range persistent {
		t.Run(f.Name(), func(t *testing.T) { checkMasked(t, f) })
	}
}

func checkMasked(t *testing.T, f gemm.GroupFamily) {
	d := gpu(t)
	k := gemm.NewGroupKernel(d.Device, f.Name(), f, false)
	const stride = 100
	task := cudatest.Grouped(t, f.Name(), 150, kernels.BF16, kernels.Dims{N: 192, K: 256, Groups: 8, TopK: 2, Skew: 100, Draw: 3})
	if err := k.Supports(task); err != nil {
		t.Skip(err)
	}
	rows, err := task.GroupRows(task.M)
	if err != nil {
		t.Fatal(err)
	}
	size := task.DType.Size()
	a := gputest.Buffer(t, d, int64(task.M*task.K*size))
	b := gputest.Buffer(t, d, int64(task.Groups*task.N*task.K*size))
	c := gputest.Buffer(t, d, int64(task.M*task.N*size))
	apart := gputest.Buffer(t, d, int64(task.Groups*stride*task.K*size))
	into := gputest.Buffer(t, d, int64(task.Groups*stride*task.N*size))
	for i, buffer := range []kernels.Buffer{a, b} {
		if err := buffer.Fill(kernels.Normal, task.DType, buffer.Bytes()/int64(size), uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	w, err := k.Prepare(task, b)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	poison := bytes.Repeat([]byte{0xff}, int(into.Bytes()))
	in := make([]byte, a.Bytes())
	gaps := make([]byte, apart.Bytes())
	if err := errors.Join(into.Upload(0, poison), a.Download(0, in)); err != nil {
		t.Fatal(err)
	}
	row := 0
	for g, n := range rows {
		copy(gaps[g*stride*task.K*size:], in[row*task.K*size:(row+n)*task.K*size])
		row += n
	}
	if err := apart.Upload(0, gaps); err != nil {
		t.Fatal(err)
	}
	follow, err := k.Bind(task, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
	if err != nil {
		t.Fatal(err)
	}
	masked, err := k.BindMasked(task, stride, kernels.Operand{Buffer: apart}, w, kernels.Operand{Buffer: into})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(t.Context(), []kernels.Launch{follow, masked}, 2); err != nil {
		t.Fatal(err)
	}
	want, got := make([]byte, c.Bytes()), make([]byte, into.Bytes())
	if err := errors.Join(c.Download(0, want), into.Download(0, got)); err != nil {
		t.Fatal(err)
	}
	row = 0
	for g, n := range rows {
		at, line := g*stride*task.N*size, task.N*size
		if !bytes.Equal(got[at:at+n*line], want[row*line:(row+n)*line]) {
			t.Errorf("the %d rows of group %d differ", n, g)
		}
		if !bytes.Equal(got[at+n*line:at+stride*line], poison[:(stride-n)*line]) {
			t.Errorf("rows after the %d of group %d were written", n, g)
		}
		row += n
	}
}
