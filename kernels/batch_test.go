package kernels

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type hostBatcher struct {
	hostGemm
	batchFaults
}

type batchFaults struct {
	neighboursB  bool // every product but the first reads its predecessor's B
	sharedB      bool // all products read the first B
	neighboursA  bool // the last product reads the first A
	tightA       bool // ignores strides between products
	tightB       bool
	tightC       bool
	oneShort     bool // skips the last product
	oneMore      bool // computes one product too many
	crossed      bool // swaps the outputs of the first two products
	behind       bool // writes the element after each C
	transposedly bool // uses the stride of the transposed B
}

func (g *hostBatcher) Supports(b Task) error {
	if b.Products == 0 {
		return g.hostGemm.Supports(b)
	}
	if !isSmall(b) {
		return b.Unsupported("host", "plain Go is too slow for it")
	}
	_, err := b.Product("host", Batches)
	return err
}

func isSmall(b Task) bool { return b.Products*b.M*b.N*b.K < 100_000 }

func (g *hostBatcher) Bind(b Task, a Operand, w Weights, c Operand, _ ...Operand) (Launch, error) {
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	if b.Products == 0 {
		return g.hostGemm.Bind(b, a, w, c)
	}
	f := g.batchFaults
	rows, _ := b.sidesOfB()
	if f.tightA {
		b.StrideA = b.M * b.LDA
	}
	if f.tightB {
		b.StrideB = rows * b.LDB
	}
	if f.tightC {
		b.StrideC = b.M * b.LDC
	}
	if f.transposedly {
		b.StrideB = (b.N + b.K - rows) * b.LDB
	}
	count := b.Products
	if f.oneShort {
		count--
	}
	if f.oneMore {
		count++
	}
	return hostLaunch(func() error {
		for i := range count {
			ofA, ofB, ofC := i, i, i
			switch {
			case f.sharedB:
				ofB = 0
			case f.neighboursB:
				ofB = max(0, i-1)
			case f.neighboursA && i == count-1:
				ofA = 0
			case f.crossed && i < 2 && count > 1:
				ofC = 1 - i
			}
			at := func(o Operand, elements int) Operand { return Operand{o.Buffer, o.Offset + elements} }
			out := at(c, ofC*b.StrideC)
			if err := g.multiply(b.Single(), at(a, ofA*b.StrideA), at(w.(hostWeights).Operand, ofB*b.StrideB), out); err != nil {
				return err
			}
			if f.behind {
				out.put(b.DType.Output(), b.M*b.LDC, 0)
			}
		}
		return nil
	}), nil
}

func smallBatches(d DType) []Task {
	var out []Task
	for _, b := range GateBatches(d) {
		if isSmall(b) {
			out = append(out, b)
		}
	}
	return out
}

func TestGatePassesCorrectBatches(t *testing.T) {
	for _, d := range DTypes() {
		if d == INT32 {
			continue
		}
		for _, b := range smallBatches(d) {
			if _, err := CheckMargin(t.Context(), &hostDevice{}, &hostBatcher{}, b, 1); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestGateSeesWrongBatches(t *testing.T) {
	for name, f := range map[string]batchFaults{
		"B of the neighbour": {neighboursB: true}, "B of the first": {sharedB: true}, "A of the first": {neighboursA: true},
		"tight A": {tightA: true}, "tight B": {tightB: true}, "tight C": {tightC: true},
		"one short": {oneShort: true}, "one more": {oneMore: true}, "crossed": {crossed: true}, "behind": {behind: true},
		"B the other way": {transposedly: true},
	} {
		for _, d := range []DType{FP32, BF16, INT8} {
			var failed *CheckError
			for _, b := range smallBatches(d) {
				_, err := CheckMargin(t.Context(), &hostWithRoom{}, &hostBatcher{batchFaults: f}, b, 1)
				if errors.As(err, &failed) {
					break
				}
			}
			if failed == nil {
				t.Errorf("%s: %s: every batch passed", d, name)
			}
		}
	}
}

type hostWithRoom struct{ hostDevice }

func (d *hostWithRoom) Alloc(bytes int64) (Buffer, error) {
	const room = 1 << 16
	return &hostBuffer{make([]byte, bytes+room)}, nil
}

func TestGateBatchMessages(t *testing.T) {
	b := Task{Subject: Product(FP32, 4, 5), M: 3, StrideC: 20}
	b.Products = 3
	for _, c := range []struct {
		faults batchFaults
		want   string
	}{
		{batchFaults{neighboursB: true}, "check: host/host/fp32/m3 n4 k5 x3 (lda 5 ldb 4 ldc 4, B kn): integers: product 1, element (0,"},
		{batchFaults{oneShort: true}, "unwritten: product 2, element (0,0) is NaN"},
		{batchFaults{behind: true}, "padding: product 0, element (3,0) is 0: written outside of C (3 elements)"},
	} {
		_, err := CheckMargin(t.Context(), &hostDevice{}, &hostBatcher{batchFaults: c.faults}, b, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want it to contain %q", err, c.want)
		}
	}
	b.StrideC = 21
	if _, err := CheckMargin(t.Context(), &hostDevice{}, &hostBatcher{}, b, 1); err == nil ||
		!strings.Contains(err.Error(), "the stride of C is 21, expected whole rows of 4") {
		t.Errorf("a stride of a part of a row: %v", err)
	}
}

func TestGateKernelCountsBatches(t *testing.T) {
	refusing := hostGemm{refuses: true}
	s, err := CheckKernel(t.Context(), &hostDevice{}, &hostBatcher{hostGemm: refusing}, FP32, 1)
	skipped := len(CheckProblems(FP32)) + len(SpecialProblems(FP32)) + len(GateBatches(FP32)) - len(smallBatches(FP32))
	passed := len(smallBatches(FP32)) + len(SpecialBatches(FP32))
	if err != nil || s.Passed != passed || len(s.Skipped) != skipped {
		t.Errorf("%d passed, %d skipped, %v", s.Passed, len(s.Skipped), err)
	}
	var failed *CheckError
	wrong := &hostBatcher{hostGemm: refusing, batchFaults: batchFaults{sharedB: true}}
	if _, err := CheckKernel(t.Context(), &hostDevice{}, wrong, FP32, 1); !errors.As(err, &failed) || failed.Task.Products == 0 {
		t.Errorf("a kernel that reads the wrong B came back as %v", err)
	}
}

func TestGateBatchesCover(t *testing.T) {
	for _, d := range DTypes() {
		var one, apart, tight, transposed, decode, threads, inside int
		ahead := map[Layout]int{}
		for _, b := range GateBatches(d) {
			n, err := b.Normalized()
			if err != nil {
				t.Fatal(err)
			}
			count := func(to *int, is bool) {
				if is {
					*to++
				}
			}
			count(&one, n.Products == 1)
			rows, _ := n.sidesOfB()
			count(&apart, n.StrideA > n.M*n.LDA && n.StrideB > rows*n.LDB && n.StrideC > n.M*n.LDC)
			count(&tight, n.Products > 1 && n.StrideA == n.M*n.K && n.StrideB == n.K*n.N && n.StrideC == n.M*n.N)
			if n.Products > 1 && n.M > 1 && n.StrideB == n.K*n.N && !n.PackInside && n.Threads == 0 {
				ahead[n.Layout]++
			}
			count(&transposed, n.Layout == Transposed)
			count(&decode, n.M == 1)
			count(&threads, n.Threads == 1)
			count(&inside, n.PackInside)
		}
		if min(one, apart, tight, transposed, decode, threads, inside) == 0 {
			t.Errorf("%s: a kind is missing: %d %d %d %d %d %d %d", d, one, apart, tight, transposed, decode, threads, inside)
		}
		if min(ahead[RowMajor], ahead[Transposed]) == 0 {
			t.Errorf("%s: several products right behind each other by layout: %v", d, ahead)
		}
	}
}

func anyBatch(t *rapid.T) Task {
	side := rapid.IntRange(1, 12)
	var b Task
	b.Products = rapid.IntRange(1, 4).Draw(t, "products")
	b.M, b.N, b.K = side.Draw(t, "m"), side.Draw(t, "n"), side.Draw(t, "k")
	b.DType = rapid.SampledFrom([]DType{FP32, FP16, BF16, INT8}).Draw(t, "dtype")
	b.Layout = Layout(rapid.IntRange(0, 1).Draw(t, "layout"))
	rows, cols := b.sidesOfB()
	longer, apart := rapid.IntRange(0, 3), rapid.IntRange(0, 3)
	b.LDA, b.LDB, b.LDC = b.K+longer.Draw(t, "lda"), cols+longer.Draw(t, "ldb"), b.N+longer.Draw(t, "ldc")
	b.StrideA = (b.M + apart.Draw(t, "a")) * b.LDA
	b.StrideB = (rows + apart.Draw(t, "b")) * b.LDB
	b.StrideC = (b.M + apart.Draw(t, "c")) * b.LDC
	return b
}

func TestBatchGateProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, seed := anyBatch(r), rapid.Uint64().Draw(r, "seed")
		if _, err := CheckMargin(t.Context(), &hostDevice{}, &hostBatcher{}, b, seed); err != nil {
			r.Fatal(err)
		}
		if b.Products == 1 || b.K*b.N < 8 {
			return // The two products' operands may be equal by chance.
		}
		var failed *CheckError
		_, err := CheckMargin(t.Context(), &hostDevice{}, &hostBatcher{batchFaults: batchFaults{neighboursB: true}}, b, seed)
		if !errors.As(err, &failed) || failed.Product == 0 {
			r.Fatalf("B of another product: %v", err)
		}
	})
}

func TestStackProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, err := anyBatch(r).Normalized()
		if err != nil {
			r.Fatal(err)
		}
		s := newStack(b.Products, b.M, b.LDC, b.StrideC, guardRows(b.LDC))
		taken := map[int]bool{}
		for product := range b.Products {
			for i := range b.M {
				row := s.row(product, i)
				if p, j := s.at(row); p != product || j != i {
					r.Fatalf("row %d is (%d,%d), told back as (%d,%d)", row, product, i, p, j)
				}
				for j := range b.N {
					at := s.first() + product*b.StrideC + i*b.LDC + j
					if at != row*b.LDC+j || at >= s.elements() || taken[at] {
						r.Fatalf("element (%d,%d,%d) lies at %d of %d", product, i, j, at, s.elements())
					}
					taken[at] = true
				}
			}
		}
	})
}

func TestBatchSubjectProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := anyBatch(r)
		one := Subject{DType: b.DType, Dims: Dims{N: b.N, K: b.K}, Layout: b.Layout}
		all := one
		all.Products = b.Products
		n := float64(b.Products)
		for _, c := range []struct {
			name     string
			got, one float64
		}{
			{"FLOPs", all.FLOPs(b.M), one.FLOPs(b.M)}, {"bytes", all.Bytes(b.M), one.Bytes(b.M)},
			{"input", float64(all.InputElements(b.M)), float64(one.InputElements(b.M))},
			{"output", float64(all.OutputElements(b.M)), float64(one.OutputElements(b.M))},
			{"stored", float64(all.Stored(b.M)), float64(one.Stored(b.M))},
		} {
			if math.Abs(c.got-n*c.one) > 1e-9*c.got {
				r.Fatalf("%s of %s: %g, expected %g times %g", c.name, all.Size(), c.got, n, c.one)
			}
		}
		norm, err := Task{Subject: all, M: b.M}.Normalized()
		if err != nil {
			r.Fatal(err)
		}
		if int64(norm.Products*norm.StrideA) != all.InputElements(b.M) || int64(norm.Products*norm.StrideC) != all.OutputElements(b.M) ||
			int64(norm.Products*norm.StrideB*norm.DType.Size()) != all.Stored(b.M) {
			r.Fatalf("strides %d %d %d of %s", norm.StrideA, norm.StrideB, norm.StrideC, all.Size())
		}
	})
}

func TestBatchNormalized(t *testing.T) {
	good := Task{Subject: Product(FP32, 3, 4), M: 2}
	good.Products = 2
	for want, change := range map[string]func(*Task){
		"-1 products, expected at least 1":                         func(b *Task) { b.Products = -1 },
		"m2 n3 k4 x2: the stride of A is 7, expected at least 8":   func(b *Task) { b.StrideA = 7 },
		"m2 n3 k4 x2: the stride of B is 11, expected at least 12": func(b *Task) { b.StrideB = 11 },
		"m2 n3 k4 x2: the stride of C is -1, expected at least 6":  func(b *Task) { b.StrideC = -1 },
		"m2 n3 k4 x2: ldb is 2, expected at least 3":               func(b *Task) { b.LDB = 2 },
	} {
		b := good
		change(&b)
		if _, err := b.Normalized(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := good.Normalized(); err != nil {
		t.Error(err)
	}
}

func TestProductBindsBatches(t *testing.T) {
	task := Task{Subject: Product(FP32, 3, 2), M: 1}
	task.Products = 2
	d := &hostDevice{gemms: []Kernel{&hostBatcher{}}}
	k, err := Find(d, GEMM, "host")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Supports(task); err != nil {
		t.Fatal(err)
	}
	put := func(v ...float64) Operand {
		o := Operand{Buffer: &hostBuffer{make([]byte, 4*len(v))}}
		for i, x := range v {
			o.put(FP32, i, x)
		}
		return o
	}
	a, b, c := put(1, 2, 3, 4), put(1, 0, 1, 0, 1, 1, 10, 0, 10, 0, 10, 10), put(0, 0, 0, 0, 0, 0)
	w, err := k.Prepare(task, b.Buffer)
	if err != nil {
		t.Fatal(err)
	}
	l, err := k.Bind(task, a, w, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.(hostLaunch)(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1, 2, 3, 30, 40, 70} {
		if got := c.get(FP32, i); got != want {
			t.Errorf("element %d is %g, want %g", i, got, want)
		}
	}
	var refused *Unsupported
	d.gemms = []Kernel{&hostGemm{}}
	if k, err = Find(d, GEMM, "host"); err != nil {
		t.Fatal(err)
	}
	if err := k.Supports(task); !errors.As(err, &refused) || refused.Reason != "it computes one product a launch" {
		t.Errorf("a kernel of single products: %v", err)
	}
}

// Planning and binding normalize each task several times.
func TestNormalizedAllocatesNothing(t *testing.T) {
	for _, task := range []Task{{Subject: Product(FP32, 64, 32), M: 4}, Task{Subject: Product(FP32, 64, 32), M: 4}.Batch(3)} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := task.Normalized(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", task, n)
		}
	}
}
