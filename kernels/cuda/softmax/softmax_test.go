package softmax

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

var types = []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16}

func problem(t testing.TB, o kernels.Task, aligned bool) Problem {
	t.Helper()
	p, err := NewProblem(o)
	if err != nil {
		t.Fatal(err)
	}
	if !aligned {
		p.aligned, p.based = o.DType.Size(), o.DType.Size()
	}
	return p
}

func problems(t testing.TB, d kernels.DType) []Problem {
	var out []Problem
	for _, columns := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 511,
		512, 513, 1000, 1023, 1024, 1025,
		2048, 2049, 4096, 4097, 8192, 10007, 16384, 32767, 32768, 50257, 65536, 100003, 131072, 262144, 262145, 524288, 524289, 1 << 20,
		3000001, 1 << 24} {
		for _, rows := range []int{1, 2, 7, 100, 2048, 65536, 1 << 20} {
			if float64(rows)*float64(columns) > 1<<33 {
				continue
			}
			o := kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d, Dims: kernels.Dims{Columns: columns}}, M: rows}
			out = append(out, problem(t, o, true), problem(t, o, false))
			o.Queries, o.Scale, o.Operation = (columns+1)/2, 0.125, kernels.SoftmaxOperation(rows%2 == 1)
			out = append(out, problem(t, o, true))
		}
	}
	return out
}

func candidatesOf(f family, a planning.Arch, p Problem) []plan {
	if c, ok := f.(planning.Chooser[Problem, Addresses]); ok {
		return c.Candidates(a, p)
	}
	return []plan{f.Plan(a, p)}
}

// TestPlansAreKept compares plans with testdata/plans.txt.gz; -update-plans accepts the new ones.
func TestPlansAreKept(t *testing.T) {
	var text bytes.Buffer
	for _, a := range cudatest.Archs {
		for _, d := range types {
			fmt.Fprintf(&text, "%d with %d multiprocessors, %s\n", a.CC, a.SMs, d)
			var times bytes.Buffer
			for _, p := range problems(t, d) {
				fmt.Fprintf(&text, "m%d c%d q%d aligned %d", p.rows, p.columns, p.queries, p.aligned)
				for _, f := range Families() {
					if f.Supports(a, p) != "" {
						continue
					}
					fmt.Fprintf(&text, "; %s %s", f.Name(), f.Plan(a, p).Label)
					for _, c := range candidatesOf(f, a, p) {
						fmt.Fprintf(&times, "%s %.6g\n", c.Label, c.Seconds)
					}
				}
				if best, _, ok := planning.Pick(ladder, a, p); ok {
					fmt.Fprintf(&text, "; auto %s", best.Name())
				}
				fmt.Fprintln(&text)
			}
			fmt.Fprintf(&text, "times %x\n", sha256.Sum256(times.Bytes()))
		}
	}
	cudatest.Golden(t, "plans.txt.gz", text.String())
}

func held(t testing.TB, f family, c planning.Call) int {
	t.Helper()
	var lanes, vectors int
	name := c.Kernel[strings.LastIndexByte(c.Kernel, '_')+1:]
	switch f.Name() {
	case "warp":
		if strings.HasPrefix(c.Kernel, "ga_softmax_staged_") || strings.HasPrefix(c.Kernel, "ga_softmax_scalar_") {
			return 0
		}
		if _, err := fmt.Sscanf(name, "%dx%d", &lanes, &vectors); err != nil {
			t.Fatalf("kernel %s: %v", c.Kernel, err)
		}
		return lanes * vectors
	case "block", "cluster":
		if _, err := fmt.Sscanf(name, "%d", &vectors); err != nil {
			t.Fatalf("kernel %s: %v", c.Kernel, err)
		}
		return vectors * c.Block.X * max(1, c.Cluster.X)
	}
	return 0
}

func checkPlan(a planning.Arch, f family, p Problem, plan plan, t testing.TB) error {
	if plan.Label == "" || !(plan.Seconds > 0) || plan.Scratch != 0 || plan.Flags < 0 {
		return fmt.Errorf("plan %+v", plan)
	}
	l := plan.Tiling
	if err := l.Validate(); err != nil || !l.Tiled() || l.Waves <= 0 || l.Split != 1 {
		return fmt.Errorf("%s: %+v does not tell all: %v", plan.Label, l, err)
	}
	calls := plan.Bind(Addresses{in: 1 << 32, out: 2 << 32, exchange: 3 << 32})
	if len(calls) != 1 {
		return fmt.Errorf("%s: %d launches", plan.Label, len(calls))
	}
	c := calls[0]
	if err := cudatest.CheckCall(a, c); err != nil {
		return fmt.Errorf("%s: %w", plan.Label, err)
	}
	resident := residentBlocks(a, c.Kernel, c.Block.X, c.Shared)
	if resident < 1 {
		return fmt.Errorf("%s: no block of %s fits a multiprocessor", plan.Label, c.Kernel)
	}
	rows := 0
	switch f.Name() {
	case "warp", "fastertransformer":
		rows = c.Grid.X * l.Tile[0]
	case "block", "cluster", "naive":
		rows = c.Grid.X / max(1, c.Cluster.X)
		if strings.HasPrefix(c.Kernel, "ga_softmax_ahead_") {
			if rows > p.rows || plan.Flags != countersBytes || c.Grid.X > resident*a.SMs ||
				c.Shared != planning.DivideUp(p.kept(), c.Cluster.X)*pieceBytes {
				return fmt.Errorf("%s: %d clusters of %d bytes for %d rows", plan.Label, rows, c.Shared, p.rows)
			}
			rows = p.rows
		}
	case "reread":
		rows = p.rows
		blocks := planning.DivideUp(p.columns, l.Tile[1])
		if c.Cooperative && c.Grid.X > resident*a.SMs {
			return fmt.Errorf("%s: %d blocks wait for each other, %d run at a time", plan.Label, c.Grid.X, resident*a.SMs)
		}
		if c.Cooperative != (plan.Flags > 0) || c.Grid.X%blocks != 0 && p.columns >= 16*blocks {
			return fmt.Errorf("%s: grid %v, %d bytes of flags, cooperative is %v", plan.Label, c.Grid, plan.Flags, c.Cooperative)
		}
	default:
		return fmt.Errorf("nothing is known of %s", f.Name())
	}
	if rows < p.rows || rows > p.rows+max(l.Tile[0], 1) {
		return fmt.Errorf("%s: %d rows, the problem has %d", plan.Label, rows, p.rows)
	}
	pieces := p.pieces()
	if strings.Contains(c.Kernel, string(endsApart)) {
		pieces = p.kept()
	}
	if n := held(t, f, c); n > 0 && n < pieces {
		return fmt.Errorf("%s: %s keeps %d pieces of a row of %d", plan.Label, c.Kernel, n, pieces)
	}
	switch {
	case strings.HasPrefix(c.Kernel, "ga_softmax_staged_"):
		return checkStaged(p, c, l.Tile[0])
	case strings.HasPrefix(c.Kernel, "ga_softmax_scalar_"):
		return checkScalar(p, c, l.Tile[0])
	}
	return nil
}

func checkScalar(p Problem, c planning.Call, each int) error {
	var elements, rows int
	if _, err := fmt.Sscanf(c.Kernel[strings.LastIndexByte(c.Kernel, '_')+1:], "%dx%d", &elements, &rows); err != nil {
		return fmt.Errorf("kernel %s: %w", c.Kernel, err)
	}
	if p.DType != kernels.FP32 || 32*elements < p.columns || each != c.Block.X/32*rows || c.Shared != 0 {
		return fmt.Errorf("%s: %d rows of %d columns to a block of %d threads", c.Kernel, each, p.columns, c.Block.X)
	}
	return nil
}

var stagedFollowed sync.Map

// checkStaged simulates softmax_staged.cu with blocks of `each` rows, element by element through all turns of
// all warps of the first and the last block.
func checkStaged(p Problem, c planning.Call, each int) error {
	var lanes, elements int
	if _, err := fmt.Sscanf(c.Kernel[strings.LastIndexByte(c.Kernel, '_')+1:], "%dx%d", &lanes, &elements); err != nil {
		return fmt.Errorf("kernel %s: %w", c.Kernel, err)
	}
	size := p.DType.Size()
	if p.queries != 0 || p.based != pieceBytes || c.Shared < each*p.columns*size || c.Grid.X > 1 && each*p.columns*size%pieceBytes != 0 {
		return fmt.Errorf("%s: %d rows a block in %d bytes", c.Kernel, each, c.Shared)
	}
	chunk := min(4, elements)
	if lanes == 1 {
		chunk = elements
		if elements != p.columns {
			return fmt.Errorf("%s for %d columns", c.Kernel, p.columns)
		}
	}
	for _, block := range []int{0, c.Grid.X - 1} {
		rows := min(each, p.rows-block*each)
		if _, followed := stagedFollowed.LoadOrStore([4]int{lanes, elements, rows, p.columns}, true); followed {
			continue
		}
		taken := make([]int, rows*p.columns)
		for turn := range (rows + 31) / 32 * lanes {
			first := turn/lanes*32 + turn%lanes
			if first >= rows {
				continue
			}
			for thread := range 32 {
				number := first + thread/lanes*lanes
				for i := range elements {
					if skipped := i/chunk*chunk > 0 && i/chunk*chunk*lanes >= p.columns; skipped || number >= rows ||
						thread%lanes+i*lanes >= p.columns {
						continue
					}
					taken[number*p.columns+thread%lanes+i*lanes]++
				}
			}
		}
		for at, n := range taken {
			if n != 1 {
				return fmt.Errorf("%s: block %d of %d rows takes element %d of row %d %d times", c.Kernel, block, each, at%p.columns,
					at/p.columns, n)
			}
		}
	}
	return nil
}

func TestPlanned(t *testing.T) {
	used := map[string]bool{}
	for _, f := range Families() {
		for _, d := range types {
			for i, p := range problems(t, d) {
				for j, a := range cudatest.Archs {
					every := 2
					if testing.Short() {
						every = 3
					}
					if f.Supports(a, p) != "" || (i+j)%every != 0 {
						continue
					}
					for _, plan := range candidatesOf(f, a, p) {
						if err := checkPlan(a, f, p, plan, t); err != nil {
							t.Fatalf("%s on %d, %+v: %v", f.Name(), a.CC, p, err)
						}
						used[plan.Bind(Addresses{})[0].Kernel] = true
					}
				}
			}
		}
	}
	cudatest.Unused(t, "ga_softmax_", used)
}

func anyProblem(t *rapid.T) Problem {
	o := kernels.Task{Subject: kernels.Subject{Operation: kernels.SoftmaxOperation(rapid.Bool().Draw(t, "log")),
		DType: rapid.SampledFrom(types).Draw(t, "type"),
		Dims: kernels.Dims{Columns: rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, 1<<13), rapid.IntRange(1, 1<<21)).Draw(t,
			"columns")}}, M: rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, 1<<22)).Draw(t, "rows")}
	if rapid.Bool().Draw(t, "masked") {
		o.Queries = rapid.IntRange(1, o.Columns).Draw(t, "queries")
	}
	p, err := NewProblem(o)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "unaligned") {
		p.based = min(pieceBytes/2, o.DType.Size()<<rapid.IntRange(0, 2).Draw(t, "aligned"))
		p.aligned = min(p.aligned, p.based)
	}
	return p
}

// TestAnyPlan checks plans of random softmaxes on all GPUs. They stay within the limits, auto's is its
// kernels' fastest, and more rows are not expected to take less time.
func TestAnyPlan(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := anyProblem(r)
		a := rapid.SampledFrom(cudatest.Archs).Draw(r, "GPU")
		_, picked, ok := planning.Pick(ladder, a, p)
		if ok != (planning.TypeReason(a, p.DType) == "") {
			r.Fatalf("%d, %+v: picked is %v", a.CC, p, ok)
		}
		if !ok {
			return
		}
		for _, f := range Families() {
			if f.Supports(a, p) != "" {
				continue
			}
			for _, plan := range candidatesOf(f, a, p) {
				if err := checkPlan(a, f, p, plan, t); err != nil {
					r.Fatalf("%s on %d, %+v: %v", f.Name(), a.CC, p, err)
				}
				if f.Name() != "naive" && f.Name() != "fastertransformer" && plan.Seconds < picked.Seconds {
					r.Fatalf("%d, %+v: %s %s takes %g s, auto %s %g s", a.CC, p, f.Name(), plan.Label, plan.Seconds, picked.Label,
						picked.Seconds)
				}
			}
		}
		more := p
		more.rows *= 2
		if _, longer, _ := planning.Pick(ladder, a, more); longer.Seconds < 0.999*picked.Seconds {
			r.Fatalf("%d, %+v: %g s, with twice the rows %g s", a.CC, p, picked.Seconds, longer.Seconds)
		}
	})
}

// On an H200, short rows use warps, long ones clusters, and rows that don't fit are read twice. The named
// plans were measured as the fastest.
func TestChoice(t *testing.T) {
	for _, c := range []struct {
		rows, columns int
		dtype         kernels.DType
		want          string
	}{
		{1 << 20, 64, kernels.FP32, "warp"},
		{4096, 64, kernels.FP32, "warp"},
		{1 << 18, 256, kernels.FP32, "warp staged 32 lanes 8 elements 4 rows"},
		{1 << 18, 512, kernels.BF16, "warp"},
		{16, 64, kernels.FP16, "block 32 threads 1 vectors"},
		{131200, 1023, kernels.FP16, "warp"},
		{32760, 4097, kernels.BF16, "block"},
		{1 << 23, 7, kernels.FP32, "warp"},
		{1 << 22, 33, kernels.FP16, "warp"},
		{16384, 8192, kernels.BF16, "block"},
		{8192, 16384, kernels.FP16, "block 512 threads 4 vectors"},
		{4096, 32768, kernels.FP16, "cluster"},
		{1024, 65536, kernels.FP32, "cluster 8 blocks 512 threads 4 vectors"},
		{2048, 65536, kernels.BF16, "cluster"},
		{1342, 100003, kernels.FP16, "cluster"},
		{256, 1 << 18, kernels.FP32, "cluster"},
		{1, 1 << 16, kernels.FP16, "cluster"},
		{64, 1 << 20, kernels.FP32, "reread"},
	} {
		p := problem(t,
			kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: c.dtype, Dims: kernels.Dims{Columns: c.columns}},
				M: c.rows}, true)
		best, plan, ok := planning.Pick(ladder, cudatest.H200, p)
		if got := planning.JoinLabel(best.Name(), plan.Label); !ok || got != c.want && best.Name() != c.want {
			t.Errorf("%s m%d c%d: picked %s, want %s", c.dtype, c.rows, c.columns, got, c.want)
		}
	}
}

// A warp's registers come from one of four parts of a multiprocessor. 21 warps of 44 registers leave no room
// for 21 others, although the total would fit.
func TestResidentBlocks(t *testing.T) {
	for _, c := range []struct{ registers, threads, want int }{
		{44, 672, 1}, {44, 640, 2}, {32, 1024, 2}, {64, 1024, 1}, {64, 128, 8}, {24, 32, 32}, {65, 1024, 0},
	} {
		const kernel = "of a test"
		built.Store(builtKey{kernel, 90}, &artefacts.Figures{Registers: c.registers, Threads: 1024})
		if got := residentBlocks(cudatest.H200, kernel, c.threads, 0); got != c.want {
			t.Errorf("%d threads of %d registers: %d blocks, want %d", c.threads, c.registers, got, c.want)
		}
		built.Delete(builtKey{kernel, 90})
	}
}

func TestBusyPart(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		uses, apart := rapid.Float64Range(0.1, 10).Draw(r, "uses"), rapid.Float64Range(0, 10).Draw(r, "apart")
		if got, want := busyPart(uses, apart, 1), uses/(uses+apart); math.Abs(got-want) > 1e-12 {
			r.Fatalf("one block: %v, want %v", got, want)
		}
		last := 0.0
		for n := 1; n <= 32; n++ {
			got := busyPart(uses, apart, n)
			if got < last-1e-12 || got > 1+1e-12 {
				r.Fatalf("%d blocks: %v, one less %v", n, got, last)
			}
			last = got
		}
		if apart <= 4*uses && last < 0.9 {
			r.Fatalf("32 blocks: %v", last)
		}
	})
}

// Pieces equals the count at the worst address that the alignment permits.
func TestPieces(t *testing.T) {
	for _, d := range types {
		for columns := 1; columns <= 70; columns++ {
			for aligned := d.Size(); aligned <= 16; aligned *= 2 {
				want := 0
				for begin := 0; begin < 16; begin += aligned {
					want = max(want, planning.DivideUp(begin+columns*d.Size(), 16))
				}
				p := Problem{rows: 3, columns: columns, DType: d, aligned: aligned}
				if got := p.pieces(); got != want {
					t.Errorf("%s c%d aligned to %d: %d pieces, want %d", d, columns, aligned, got, want)
				}
			}
		}
	}
}

// In a matrix at a multiple of 16 bytes, each element of a row is in a piece fully inside the row, or in one
// of its ends, which fit one element per lane. Row<T, Form::ENDS> in softmax.cuh depends on it.
func TestKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := Problem{columns: rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 5000)).Draw(r, "columns"),
			DType: rapid.SampledFrom(types).Draw(r, "type"), based: pieceBytes}
		p.aligned = planning.AlignmentOf(0, int64(p.columns*p.DType.Size()))
		n := pieceBytes / p.DType.Size()
		at := rapid.IntRange(0, 100).Draw(r, "row") * p.columns
		head := min((n-at&(n-1))&(n-1), p.columns)
		pieces := (p.columns - head) / n
		ends := p.columns - pieces*n
		if ends > 2*(n-1) || pieces > p.kept() || pieces > 0 && (at+head)%n != 0 {
			r.Fatalf("%d ends, %d pieces from element %d on, at most %d are kept", ends, pieces, at+head, p.kept())
		}
		taken := make([]int, p.columns)
		for i := range pieces * n {
			taken[head+i]++
		}
		for i := range ends {
			from := pieces*n + i - head
			if i < head {
				from = i - head
			}
			taken[head+from]++
		}
		for column, times := range taken {
			if times != 1 {
				r.Fatalf("column %d of %d at %d is taken %d times", column, p.columns, at, times)
			}
		}
	})
}

// Lanes access at most two words of a bank if rows are not whole pieces, and one if rows have an odd number
// of words.
func TestConflicts(t *testing.T) {
	for _, d := range types {
		for columns := 1; columns <= 1024; columns++ {
			p := problem(t,
				kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: d, Dims: kernels.Dims{Columns: columns}}, M: 1000},
				true)
			tiles := p.stagedTilesOf()
			if len(tiles) == 0 {
				t.Fatalf("%d columns have no tile", columns)
			}
			most := 2
			if d.Size() == 4 && columns%2 == 1 {
				most = 1
			}
			for _, tile := range tiles {
				if got := tile.conflicts(p); p.aligned < pieceBytes && got > most {
					t.Errorf("%s c%d, %d lanes: %d words of a bank", d, columns, tile.lanes, got)
				}
			}
		}
	}
}

func TestSeen(t *testing.T) {
	for _, c := range []struct{ columns, queries int }{{1, 1}, {5, 5}, {9, 4}, {100, 1}, {64, 64}} {
		o := kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, Dims: kernels.Dims{Columns: c.columns, Queries: c.queries}},
			M: 3 * c.queries}
		want := 0
		for row := range o.M {
			want += o.Seen(row)
		}
		p := Problem{rows: o.M, columns: c.columns, queries: c.queries, DType: kernels.FP32}
		in, out := p.bytes()
		if in != float64(4*want) || out != float64(4*o.M*c.columns) {
			t.Errorf("%+v: %v bytes in, %v out, want %d and %d", c, in, out, 4*want, 4*o.M*c.columns)
		}
	}
}

func TestRefusals(t *testing.T) {
	huge := kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 1 << 22}},
		M: 4}
	for _, c := range []struct {
		f    family
		a    planning.Arch
		o    kernels.Task
		want string
	}{
		{warp{}, cudatest.H200, huge, "takes rows of up to 4096 bytes, not 4194304 columns"},
		{block{}, cudatest.H200, huge, "takes rows of up to 131072 bytes, not 4194304 columns"},
		{cluster{}, cudatest.H200, huge, "takes rows of up to 1048576 bytes, not 4194304 columns"},
		{cluster{}, cudatest.T4,
			kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 4096}},
				M: 4}, "needs clusters of blocks, of compute capability 9.0; this GPU has 7.5"},
		{cluster{}, cudatest.H200,
			kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 1}}, M: 4},
			"takes rows of more than 16 bytes"},
		{reread{}, cudatest.T4,
			kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.BF16, Dims: kernels.Dims{Columns: 3}}, M: 4},
			"bf16 needs compute capability 8.0, this GPU has 7.5"},
		{fasterTransformer{}, cudatest.H200, huge, "takes up to 1024 columns, not 4194304"},
	} {
		if got := c.f.Supports(c.a, problem(t, c.o, true)); got != c.want {
			t.Errorf("%s: %q, want %q", c.f.Name(), got, c.want)
		}
	}
	if _, err := NewProblem(kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32,
		Dims: kernels.Dims{Columns: 1}}, M: 1 << 31}); err == nil || !strings.Contains(err.Error(), "an extent is beyond") {
		t.Errorf("got %v", err)
	}
	if _, err := NewProblem(kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.INT8,
		Dims: kernels.Dims{Columns: 1}}, M: 1}); err == nil {
		t.Error("softmax of int8 is planned")
	}
}
