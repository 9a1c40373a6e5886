//go:build cuda

package softmax

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
)

func gate(t *testing.T, of func(d kernels.DType) []kernels.Task) {
	d := gputest.First(t)
	for _, dt := range types {
		t.Run(string(dt), func(t *testing.T) {
			ran, margins := map[string]int{}, map[string]float64{}
			for o, c := range softmaxChecks(t, of(dt)) {
				check := func(name, label string, k *Way) {
					m, err := c.Margin(context.Background(), d, k)
					if err != nil {
						t.Errorf("%s %s: %v", name, label, err)
					}
					margins[name] = max(margins[name], m)
					ran[name]++
				}
				p, err := NewProblem(o)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range Families() {
					for _, way := range cudatest.Ways(d.Arch(), f, p) {
						check(f.Name(), way.Plan(d.Arch(), p).Label, NewWay(d.Device, f.Name(), "", way))
					}
				}
				if auto := NewWay(d.Device, "auto", "", ladder...); auto.Supports(o) == nil {
					check("auto", "", auto)
				}
			}
			if len(ran) == 0 {
				t.Skip("nothing of this type")
			}
			for name, n := range ran {
				t.Logf("%s: %d checks, margin %.3f", name, n, margins[name])
			}
		})
	}
}

func softmaxChecks(t *testing.T, problems []kernels.Task) iter.Seq2[kernels.Task, *kernels.SoftmaxCheck] {
	const ahead = 6
	return func(yield func(kernels.Task, *kernels.SoftmaxCheck) bool) {
		type made struct {
			check *kernels.SoftmaxCheck
			err   error
		}
		results := make([]chan made, len(problems))
		begin := func(i int) {
			if i < len(problems) {
				results[i] = make(chan made, 1)
				go func() {
					check, err := kernels.NewSoftmaxCheck(problems[i], 1)
					results[i] <- made{check, err}
				}()
			}
		}
		for i := range ahead {
			begin(i)
		}
		for i, o := range problems {
			begin(i + ahead)
			r := <-results[i]
			if r.err != nil {
				t.Fatal(r.err)
			}
			results[i] = nil
			if !yield(o, r.check) {
				return
			}
		}
	}
}

func TestSoftmaxGate(t *testing.T) {
	gate(t, func(d kernels.DType) []kernels.Task {
		all := kernels.SoftmaxProblems(d)
		for columns := 1; columns <= 70; columns++ {
			all = append(all,
				kernels.Task{Subject: kernels.Subject{Operation: kernels.SoftmaxOperation(columns%2 == 0), DType: d,
					Dims: kernels.Dims{Columns: columns, Queries: columns * (columns % 3) / 2}}, M: 41})
		}
		for _, columns := range []int{100003, 262144, 524288, 700001} {
			all = append(all,
				kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d,
					Dims: kernels.Dims{Columns: columns, Queries: columns % 2 * 2}}, M: 2})
		}
		all = append(all,
			kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d, Dims: kernels.Dims{Columns: 20011}}, M: 17},
			kernels.Task{Subject: kernels.Subject{Operation: kernels.LogSoftmax, DType: d, Dims: kernels.Dims{Columns: 16384}}, M: 18})
		for _, columns := range []int{1, 3, 6, 13, 29, 61, 125, 129, 257, 511, 1023} {
			all = append(all,
				kernels.Task{Subject: kernels.Subject{Operation: kernels.SoftmaxOperation(columns%5 == 1), DType: d,
					Dims: kernels.Dims{Columns: columns}}, M: 70001 / columns})
		}
		return append(all, kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d, Dims: kernels.Dims{Columns: 2100}},
			M: 410, Scale: 0.5})
	})
}

// TestSmallSoftmax runs small softmaxes with every plan: rows shorter and longer than a piece, aligned and
// not, masked, and shared by blocks. With -short, for tools that check every access, each kernel runs once.
func TestSmallSoftmax(t *testing.T) {
	if testing.Short() {
		watch(t)
		return
	}
	gate(t, func(d kernels.DType) []kernels.Task {
		return []kernels.Task{
			{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d, Dims: kernels.Dims{Columns: 3}}, M: 37},
			{Subject: kernels.Subject{Operation: kernels.LogSoftmax, DType: d, Dims: kernels.Dims{Columns: 133, Queries: 100}}, M: 9},
			{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d, Dims: kernels.Dims{Columns: 2048}}, M: 3},
			{Subject: kernels.Subject{Operation: kernels.LogSoftmax, DType: d, Dims: kernels.Dims{Columns: 9001}}, M: 9},
			{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d, Dims: kernels.Dims{Columns: 141}}, M: 75},
			{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d, Dims: kernels.Dims{Columns: 600, Queries: 7}}, M: 140},
		}
	})
}

// alone runs single launches. Under tools that check every access, the overhead of a block of launches
// exceeds a launch.
type alone struct{ gputest.GPU }

func (d alone) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	for i := range n {
		l, ok := launches[i%len(launches)].(*driver.Launch)
		if !ok {
			return kernels.Span{}, fmt.Errorf("launch %d is a %T", i, launches[i%len(launches)])
		}
		if _, err := d.Once(l); err != nil {
			return kernels.Span{}, err
		}
	}
	return kernels.Span{}, ctx.Err()
}

// watch runs each kernel for small rows once, at the first problem with a plan for it.
func watch(t *testing.T) {
	d := alone{gputest.First(t)}
	for _, dt := range types {
		t.Run(string(dt), func(t *testing.T) {
			ran := map[string]bool{}
			for _, o := range []kernels.Task{
				{Subject: kernels.Subject{Operation: kernels.LogSoftmax, DType: dt, Dims: kernels.Dims{Columns: 401, Queries: 100}}, M: 9},
				{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: 14001}}, M: 13},
				{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: 16384}}, M: 13},
				{Subject: kernels.Subject{Operation: kernels.LogSoftmax, DType: dt, Dims: kernels.Dims{Columns: 4097}}, M: 3},
				{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: 2048}}, M: 3},
				{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: 141}}, M: 75},
				{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: 128}}, M: 40},
				{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: 3}}, M: 37},
			} {
				p, err := NewProblem(o)
				if err != nil {
					t.Fatal(err)
				}
				var check *kernels.SoftmaxCheck
				for _, f := range Families() {
					for _, way := range cudatest.Ways(d.Arch(), f, p) {
						plan := way.Plan(d.Arch(), p)
						call := plan.Bind(Addresses{})[0]
						key := call.Kernel
						if call.Cooperative { // its blocks meet
							key += " together"
						}
						if ran[key] {
							continue
						}
						ran[key] = true
						if check == nil {
							whole, err := kernels.NewSoftmaxCheck(o, 1)
							if err != nil {
								t.Fatal(err)
							}
							check = whole.Brief()
						}
						if _, err := check.Margin(context.Background(), d, NewWay(d.Device, f.Name(), "", way)); err != nil {
							t.Errorf("%s %s: %v", f.Name(), plan.Label, err)
						}
					}
				}
			}
			if len(ran) == 0 {
				t.Skip("nothing of this type")
			}
			t.Logf("%d kernels: %s", len(ran), strings.Join(slices.Sorted(maps.Keys(ran)), ", "))
		})
	}
}

// Different alignments of input and output give the same result as equal ones, without writes outside the
// output.
func TestOperandsApart(t *testing.T) {
	d := gputest.First(t)
	const rows, guard = 5, 16
	for _, dt := range types {
		for i := range 3 * len(Families()) {
			f, columns := Families()[i/3], []int{7, 301, 9001}[i%3]
			t.Run(fmt.Sprintf("%s/%s/c%d", dt, f.Name(), columns), func(t *testing.T) {
				o := kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: columns}},
					M: rows}
				k := NewWay(d.Device, f.Name(), "", f)
				if err := k.Supports(o); err != nil {
					t.Skip(err)
				}
				size := int64(dt.Size())
				in := gputest.Buffer(t, d, int64(rows*columns+2*guard)*size)
				var first []float64
				for _, offsets := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {3, 2}, {1, 1}, {5, 12}} {
					x := make([]float64, rows*columns)
					for i := range x {
						x[i] = float64(i%97)/16 - 3
					}
					bytes := make([]byte, len(x)*int(size))
					if err := kernels.Encode(dt, x, bytes); err != nil {
						t.Fatal(err)
					}
					if err := in.Upload(int64(offsets[0])*size, bytes); err != nil {
						t.Fatal(err)
					}
					out := gputest.Buffer(t, d, int64(rows*columns+2*guard)*size)
					blank := make([]byte, int64(rows*columns+2*guard)*size)
					for i := range blank {
						blank[i] = 0x55
					}
					if err := out.Upload(0, blank); err != nil {
						t.Fatal(err)
					}
					from, to := kernels.Operand{Buffer: in, Offset: offsets[0]}, kernels.Operand{Buffer: out, Offset: offsets[1]}
					l, err := k.Bind(o, from, kernels.NothingStored{}, to)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := d.Execute(context.Background(), []kernels.Launch{l}, 1); err != nil {
						t.Fatal(err)
					}
					got := make([]byte, len(blank))
					if err := out.Download(0, got); err != nil {
						t.Fatal(err)
					}
					begin, end := offsets[1]*int(size), (offsets[1]+rows*columns)*int(size)
					for i, b := range got {
						if (i < begin || i >= end) && b != 0x55 {
							t.Fatalf("offsets %v: byte %d beside the output was written", offsets, i)
						}
					}
					y := make([]float64, rows*columns)
					if err := kernels.Decode(dt, got[begin:end], y); err != nil {
						t.Fatal(err)
					}
					if first == nil {
						first = y
					}
					for i := range y {
						if !(math.Abs(y[i]-first[i]) <= 2*dt.UnitRoundoff()*first[i]+1e-6*first[i]+1e-7) {
							t.Fatalf("offsets %v: element %d is %g, with equal ones %g", offsets, i, y[i], first[i])
						}
					}
				}
			})
		}
	}
}
