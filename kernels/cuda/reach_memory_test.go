//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

type reachCase struct {
	timing.Rotation
	d kernels.Device
}

func (r *reachCase) seconds() (float64, error) {
	return r.Rotation.Seconds(context.Background(), r.d)
}

type reachSeries struct {
	reachCase
	name    reach.Series
	serial  bool
	samples []reach.Sample
}

type reachProduct struct {
	reach.Product
	series []*reachSeries
}

type reachBench struct {
	d        kernels.Device
	machine  reach.Machine
	past     int64 // minimum total bytes of the weights' copies
	a        map[kernels.DType]kernels.Buffer
	c        kernels.Buffer
	products []*reachProduct
	fast     kernels.Kernel // cuBLASLt with fast accumulation, nil before first use
	closers  []func() error
}

func newReachBench(d kernels.Device, machine reach.Machine) *reachBench {
	return &reachBench{d: d, machine: machine, past: kernels.RotationFactor * d.Spec().LastLevelCacheBytes,
		a: map[kernels.DType]kernels.Buffer{}}
}

func (w *reachBench) close() error {
	var all []error
	for _, c := range slices.Backward(w.closers) {
		all = append(all, c())
	}
	return errors.Join(all...)
}

// alloc allocates elements of normal data, or uninitialized if the seed is 0.
func (w *reachBench) alloc(elements int64, dt kernels.DType, seed uint64) (kernels.Buffer, error) {
	buffer, err := w.d.Alloc(elements * int64(dt.Size()))
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, buffer.Close)
	if seed == 0 {
		return buffer, nil
	}
	return buffer, buffer.Fill(kernels.Normal, dt, elements, seed)
}

type reachMatrix struct {
	dt   kernels.DType
	n, k int
	jobs []reach.Job
}

func (m reachMatrix) bytes() int64 { return int64(m.n) * int64(m.k) * int64(m.dt.Size()) }

func (w *reachBench) copies(m *reachMatrix) int64 { return w.past/m.bytes() + 1 }

func matrices(jobs []reach.Job) []*reachMatrix {
	var all []*reachMatrix
	for _, j := range jobs {
		at := slices.IndexFunc(all, func(m *reachMatrix) bool { return m.dt == j.DType && m.n == j.N && m.k == j.K })
		if at < 0 {
			at, all = len(all), append(all, &reachMatrix{dt: j.DType, n: j.N, k: j.K})
		}
		all[at].jobs = append(all[at].jobs, j)
	}
	return all
}

const roomShare = 0.85

// place allocates memory for jobs and binds their launches. It returns the number of weight matrices that did
// not fit.
func (w *reachBench) place(jobs []reach.Job) (leftOut int, err error) {
	room := w.d.Spec().MemoryBytes
	if t, ok := w.d.(kernels.MemoryTeller); ok {
		if free, ok := t.FreeMemory(); ok {
			room = free
		}
	}
	room = int64(roomShare * float64(room))
	a, c := map[kernels.DType]int64{}, int64(0)
	for _, j := range jobs {
		a[j.DType] = max(a[j.DType], int64(j.M)*int64(j.K))
		c = max(c, int64(j.M)*int64(j.N)*int64(j.DType.Output().Size()))
	}
	for dt, elements := range a {
		if w.a[dt], err = w.alloc(elements, dt, 99); err != nil {
			return 0, err
		}
		room -= elements * int64(dt.Size())
	}
	if w.c, err = w.alloc(c, kernels.INT8, 0); err != nil {
		return 0, err
	}
	room -= c
	for _, m := range matrices(jobs) {
		need := w.copies(m) * m.bytes()
		if need > room {
			leftOut++
			continue
		}
		room -= need
		if err := w.bind(m); err != nil {
			return leftOut, err
		}
	}
	return leftOut, nil
}

// reachWeights are the weights for one kernel and layout, one set per copy.
type reachWeights map[string][]kernels.Weights

func (w *reachBench) bind(m *reachMatrix) error {
	raws := make([]kernels.Buffer, w.copies(m))
	for i := range raws {
		var err error
		if raws[i], err = w.alloc(int64(m.n)*int64(m.k), m.dt, uint64(i)+1); err != nil {
			return err
		}
	}
	weights := reachWeights{}
	for _, j := range m.jobs {
		p := &reachProduct{Product: j.Product}
		for _, name := range j.Series {
			s := &reachSeries{name: name, serial: name == reach.Serial,
				reachCase: reachCase{d: w.d, Rotation: timing.Rotation{N: reach.Launches(w.machine.Seconds(j.Product))}}}
			var err error
			if s.serial && p.series[0].name == reach.Auto {
				s.Launches = p.series[0].Launches
			} else if s.Launches, err = w.launches(j.Product, name, raws, weights); err != nil {
				return fmt.Errorf("%v %s: %w", j.Product, name, err)
			}
			once, err := s.seconds() // code and clocks
			if err != nil {
				return fmt.Errorf("%v %s: %w", j.Product, name, err)
			}
			s.N = reach.Launches(once)
			p.series = append(p.series, s)
		}
		w.products = append(w.products, p)
	}
	return nil
}

func (w *reachBench) launches(p reach.Product, name reach.Series, raws []kernels.Buffer, prepared reachWeights) ([]kernels.Launch, error) {
	g, layout, err := w.kernel(name)
	if err != nil {
		return nil, err
	}
	problem := kernels.Task{Subject: kernels.Product(p.DType, p.N, p.K).In(layout), M: p.M}
	key := g.Name() + " " + layout.String()
	if prepared[key] == nil {
		for _, raw := range raws {
			one, err := g.Prepare(problem, raw)
			if err != nil {
				return nil, err
			}
			w.closers = append(w.closers, one.Close)
			prepared[key] = append(prepared[key], one)
		}
	}
	out := make([]kernels.Launch, len(raws))
	for i, weights := range prepared[key] {
		if out[i], err = g.Bind(problem, kernels.Operand{Buffer: w.a[p.DType]}, weights, kernels.Operand{Buffer: w.c}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (w *reachBench) kernel(name reach.Series) (kernels.Kernel, kernels.Layout, error) {
	of := map[reach.Series]struct {
		kernel string
		layout kernels.Layout
	}{
		reach.Auto: {"auto", kernels.Transposed}, reach.Serial: {"auto", kernels.Transposed},
		reach.Blas: {"cublas", kernels.Transposed}, reach.BlasKN: {"cublas", kernels.RowMajor},
		reach.BlasLt: {"cublaslt", kernels.Transposed}, reach.BlasLtKN: {"cublaslt", kernels.RowMajor},
		reach.BlasLtFP8: {"cublaslt", kernels.Transposed},
	}[name]
	g, err := kernels.Find(w.d, kernels.GEMM, of.kernel)
	if err != nil || name != reach.BlasLtFP8 {
		return g, of.layout, err
	}
	if w.fast == nil {
		w.fast, err = kernels.Find(w.d, kernels.GEMM, "cublaslt-fast")
	}
	return w.fast, of.layout, err
}

func (w *reachBench) rows() []reach.Row {
	var out []reach.Row
	for _, p := range w.products {
		for _, s := range p.series {
			out = append(out,
				reach.Row{Product: p.Product, Series: s.name, Label: s.Launches[0].Label(), Launches: s.N, Samples: s.samples})
		}
	}
	return out
}
