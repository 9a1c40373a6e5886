package kernels

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hostBatcher computes batches one product after the other, correctly unless a fault is set.
type hostBatcher struct {
	hostGemm
	batchFaults
}

// batchFaults are the ways in which kernels mistake one product for another.
type batchFaults struct {
	neighboursB  bool // every product reads the B of the one before it, the first its own
	sharedB      bool // all products read the first one's B
	neighboursA  bool // the last product reads the A of the first
	tightA       bool // strides between products are not looked at
	tightB       bool
	tightC       bool
	oneShort     bool // the last product is not computed
	oneMore      bool // one product too many
	crossed      bool // the first two products are written to each other's place
	behind       bool // writes the element behind each product's C
	transposedly bool // products of B lie apart as if B were stored the other way round
}

func (g *hostBatcher) SupportsBatch(b Batch) error {
	if !isSmall(b) {
		return &Unsupported{Kernel: "host", DType: b.DType, Reason: "plain Go is too slow for it"}
	}
	return nil
}

func isSmall(b Batch) bool { return b.Products*b.M*b.N*b.K < 100_000 }

func (g *hostBatcher) PrepareBatch(b Batch, raw Buffer) (Weights, error) {
	return g.PrepareWeights(b.Problem, raw)
}

func (g *hostBatcher) BindBatch(b Batch, a Operand, w Weights, c Operand) (Launch, error) {
	b, err := b.Normalized()
	if err != nil {
		return nil, err
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
			if err := g.multiply(b.Problem, at(a, ofA*b.StrideA), at(w.(hostWeights).Operand, ofB*b.StrideB), out); err != nil {
				return err
			}
			if f.behind {
				out.put(b.DType.Output(), b.M*b.LDC, 0)
			}
		}
		return nil
	}), nil
}

// smallBatches is the standing table without what plain Go is too slow for.
func smallBatches(d DType) []Batch {
	var out []Batch
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
			if _, err := GateBatch(t.Context(), &hostDevice{}, &hostBatcher{}, b, 1); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestGateSeesWrongBatches: each fault fails some batch of the table.
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
				_, err := GateBatch(t.Context(), &hostWithRoom{}, &hostBatcher{batchFaults: f}, b, 1)
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

// hostWithRoom allocates more than is asked for, so that faults which leave a buffer don't
// end the test.
type hostWithRoom struct{ hostDevice }

func (d *hostWithRoom) Alloc(bytes int64) (Buffer, error) {
	const room = 1 << 16
	return &hostBuffer{make([]byte, bytes+room)}, nil
}

func TestGateBatchMessages(t *testing.T) {
	b := Batch{Problem: Problem{Shape: Shape{M: 3, N: 4, K: 5}, DType: FP32}, Products: 3, StrideC: 20}
	for _, c := range []struct {
		faults batchFaults
		want   string
	}{
		{batchFaults{neighboursB: true}, "check: host/host/fp32/m3 n4 k5 x3 (lda 5 ldb 4 ldc 4, B kn): integers: product 1, element (0,"},
		{batchFaults{oneShort: true}, "unwritten: product 2, element (0,0) is NaN"},
		{batchFaults{behind: true}, "padding: product 0, element (3,0) is 0: written outside of C (3 elements)"},
	} {
		_, err := GateBatch(t.Context(), &hostDevice{}, &hostBatcher{batchFaults: c.faults}, b, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want it to contain %q", err, c.want)
		}
	}
	b.StrideC = 21
	if _, err := GateBatch(t.Context(), &hostDevice{}, &hostBatcher{}, b, 1); err == nil || !strings.Contains(err.Error(), "the stride of C is 21, expected whole rows of 4") {
		t.Errorf("a stride of a part of a row: %v", err)
	}
}

// TestGateKernelCountsBatches: they are part of the correctness check beside single products, and those
// that a kernel refuses are told.
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
	if _, err := CheckKernel(t.Context(), &hostDevice{}, wrong, FP32, 1); !errors.As(err, &failed) || failed.Products == 0 {
		t.Errorf("a kernel that reads the wrong B came back as %v", err)
	}
}

// TestGateBatchesCover: the table has what its comment promises.
func TestGateBatchesCover(t *testing.T) {
	for _, d := range DTypes() {
		var one, apart, tight, transposed, decode, threads, inside int
		ahead := map[Layout]int{} // tight ones that are packed ahead
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
				ahead[n.BLayout]++
			}
			count(&transposed, n.BLayout == Transposed)
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

// anyBatch draws a batch whose strides are whole rows.
func anyBatch(t *rapid.T) Batch {
	side := rapid.IntRange(1, 12)
	b := Batch{Products: rapid.IntRange(1, 4).Draw(t, "products")}
	b.Shape = Shape{M: side.Draw(t, "m"), N: side.Draw(t, "n"), K: side.Draw(t, "k")}
	b.DType = rapid.SampledFrom([]DType{FP32, FP16, BF16, INT8}).Draw(t, "dtype")
	b.BLayout = Layout(rapid.IntRange(0, 1).Draw(t, "layout"))
	rows, cols := b.sidesOfB()
	longer, apart := rapid.IntRange(0, 3), rapid.IntRange(0, 3)
	b.LDA, b.LDB, b.LDC = b.K+longer.Draw(t, "lda"), cols+longer.Draw(t, "ldb"), b.N+longer.Draw(t, "ldc")
	b.StrideA = (b.M + apart.Draw(t, "a")) * b.LDA
	b.StrideB = (rows + apart.Draw(t, "b")) * b.LDB
	b.StrideC = (b.M + apart.Draw(t, "c")) * b.LDC
	return b
}

// TestBatchGateProperty: whatever the sizes, strides and layout, a correct kernel passes
// and one that reads another product's B does not.
func TestBatchGateProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b, seed := anyBatch(r), rapid.Uint64().Draw(r, "seed")
		if _, err := GateBatch(t.Context(), &hostDevice{}, &hostBatcher{}, b, seed); err != nil {
			r.Fatal(err)
		}
		if b.Products == 1 || b.K*b.N < 8 {
			return // by chance the operands of two products may be alike
		}
		var failed *CheckError
		_, err := GateBatch(t.Context(), &hostDevice{}, &hostBatcher{batchFaults: batchFaults{neighboursB: true}}, b, seed)
		if !errors.As(err, &failed) || failed.Product == 0 {
			r.Fatalf("B of another product: %v", err)
		}
	})
}

// TestStackProperty: no two elements of a batch share a place, all lie inside of the
// buffer, and each row is told back.
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

// TestBatchSubjectProperty: a batch of n is n times the work and the memory of one.
func TestBatchSubjectProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := anyBatch(r)
		one := Subject{DType: b.DType, Dims: Dims{N: b.N, K: b.K}, Layout: b.BLayout}
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
		norm, err := Task{Subject: all, M: b.M}.batch().Normalized()
		if err != nil {
			r.Fatal(err)
		}
		// Contiguous operands fill exactly what the subject says.
		if int64(norm.Products*norm.StrideA) != all.InputElements(b.M) || int64(norm.Products*norm.StrideC) != all.OutputElements(b.M) ||
			int64(norm.Products*norm.StrideB*norm.DType.Size()) != all.Stored(b.M) {
			r.Fatalf("strides %d %d %d of %s", norm.StrideA, norm.StrideB, norm.StrideC, all.Size())
		}
	})
}

func TestBatchNormalized(t *testing.T) {
	good := Batch{Problem: Problem{Shape: Shape{M: 2, N: 3, K: 4}, DType: FP32}, Products: 2}
	for want, change := range map[string]func(*Batch){
		"0 products, expected at least 1":                          func(b *Batch) { b.Products = 0 },
		"m2 n3 k4 x2: the stride of A is 7, expected at least 8":   func(b *Batch) { b.StrideA = 7 },
		"m2 n3 k4 x2: the stride of B is 11, expected at least 12": func(b *Batch) { b.StrideB = 11 },
		"m2 n3 k4 x2: the stride of C is -1, expected at least 6":  func(b *Batch) { b.StrideC = -1 },
		"m2 n3 k4: ldb is 2, expected at least 3":                  func(b *Batch) { b.LDB = 2 },
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

// TestProductBindsBatches: a task with products reaches a kernel as a batch, and one
// without reaches it as before.
func TestProductBindsBatches(t *testing.T) {
	task := Task{Subject: Product(FP32, 3, 2), M: 1}
	task.Products = 2
	d := &hostDevice{gemms: []Gemm{&hostBatcher{}}}
	k, err := FindImplementation(d, GEMM, "host")
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
	w, err := k.PrepareWeights(task, b.Buffer)
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
	d.gemms = []Gemm{&hostGemm{}}
	if k, err = FindImplementation(d, GEMM, "host"); err != nil {
		t.Fatal(err)
	}
	if err := k.Supports(task); !errors.As(err, &refused) || refused.Reason != "it computes one product a launch" {
		t.Errorf("a kernel of single products: %v", err)
	}
	if _, err := k.PrepareWeights(task, b.Buffer); !errors.As(err, &refused) {
		t.Errorf("weights of a batch for a kernel of single products: %v", err)
	}
}
