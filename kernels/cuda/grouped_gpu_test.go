//go:build cuda

package cuda

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/hopper"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
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

// Every launch that the persistent kernel may choose, not only the fastest: tiles of one consumer and of both, clusters, tiles
// that are split.
func TestGroupedWays(t *testing.T) {
	d := gpu(t)
	k := gemm.NewGroupChooser(d.Device, hopper.Grouped{}).(kernels.Planned)
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
}

// With gaps between the groups, rows are those of groups that follow each other, bit for bit, and the gaps of C are left alone.
func TestGroupedMasked(t *testing.T) {
	d := gpu(t)
	k := gemm.NewGroupKernel(d.Device, "hopper-grouped", hopper.Grouped{}, false)
	const stride = 100
	task := kernels.Task{M: 150, Subject: kernels.Subject{
		Operation: kernels.GroupedGEMM, DType: kernels.BF16, Layout: kernels.Transposed,
		Dims: kernels.Dims{N: 192, K: 256, Groups: 8, TopK: 2, Skew: 100, Draw: 3},
	}}
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
