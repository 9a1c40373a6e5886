package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

type hostDevice struct{ gemms []Kernel }

type hostBuffer struct{ mem []byte }

type hostWeights struct{ Operand }

type hostLaunch func() error

func (hostLaunch) Label() string { return "" }
func (l hostLaunch) run() error  { return l() }

func (hostWeights) Bytes() int64 { return 0 }
func (hostWeights) Close() error { return nil }

func (b *hostBuffer) Bytes() int64                                  { return int64(len(b.mem)) }
func (b *hostBuffer) Fill(Distribution, DType, int64, uint64) error { return errors.ErrUnsupported }
func (b *hostBuffer) Upload(off int64, src []byte) error            { copy(b.mem[off:], src); return nil }
func (b *hostBuffer) Download(off int64, dst []byte) error          { copy(dst, b.mem[off:]); return nil }
func (b *hostBuffer) Close() error                                  { return nil }

func (d *hostDevice) Spec() Spec                                 { return Spec{ID: "host"} }
func (d *hostDevice) Ceilings(context.Context) (Ceilings, error) { return Ceilings{}, nil }
func (d *hostDevice) Kernels(Operation) []Kernel                 { return d.gemms }
func (d *hostDevice) Missing() []Missing                         { return nil }
func (d *hostDevice) Alloc(bytes int64) (Buffer, error)          { return &hostBuffer{make([]byte, bytes)}, nil }
func (d *hostDevice) Telemetry() Telemetry                       { return Telemetry{} }
func (d *hostDevice) Close() error                               { return nil }
func (d *hostDevice) Execute(_ context.Context, l []Launch, n int) (Span, error) {
	for i := range n {
		if err := l[i%len(l)].(interface{ run() error }).run(); err != nil {
			return Span{}, err
		}
	}
	return Span{Seconds: 1}, nil
}

type hostGemm struct {
	TellsNothing
	refuses  bool
	faults   faults
	launches int
}

type faults struct {
	dropTile      bool // drops the last 16 of K if there are more
	dropTail      bool // drops the last term of odd K
	dropLastRow   bool // skips the last row of C
	skipElement   bool // skips one element
	accumulate    bool // C += instead of C =
	pastRow       bool // writes C[i][N] where ldc > N
	pastEnd       bool // writes one element after the last row
	beforeC       bool // writes one element before C
	swapColumns   bool
	readPastRow   bool // multiplies A[i][K] by zero
	readPastB     bool // adds the element after B's last
	halfSums      bool // keeps the sum in the output type
	drift         bool // returns another result at each run
	writeA        bool // clobbers A
	saturate      bool // int8: pairs of unsigned × signed products saturate at 16 bits (VPMADDUBSW)
	wrongRounding bool // truncates to the output type
	fails         bool

	sumsInFP32    bool // int8: rounds sums to fp32
	noLowest      bool // reads -128 as -127
	skipZeros     bool // skips terms with a zero of A
	dropNaN       bool // returns 0 for NaN
	saturateOut   bool // returns the largest finite number on overflow
	overflowInOut bool // keeps sums in the output type's range, otherwise infinite
	nextRow       bool // multiplies the element after A's row by zero
	zeroA, zeroB  bool // flushes subnormal operands of A or B
}

func (g *hostGemm) Name() string     { return "host" }
func (g *hostGemm) Describe() string { return "plain Go" }

func (g *hostGemm) Supports(p Task) error {
	if g.refuses {
		return p.Unsupported("host", "it refuses everything")
	}
	_, err := p.Product("host", 0)
	return err
}

func (g *hostGemm) Prepare(_ Task, raw Buffer) (Weights, error) {
	return hostWeights{Operand{Buffer: raw}}, nil
}

func (g *hostGemm) Bind(p Task, a Operand, w Weights, c Operand, _ ...Operand) (Launch, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	return hostLaunch(func() error { return g.multiply(p, a, w.(hostWeights).Operand, c) }), nil
}

func (o Operand) get(d DType, i int) float64 {
	return valueAt(d, o.Buffer.(*hostBuffer).mem, (o.Offset+i)*d.Size())
}

func (o Operand) put(d DType, i int, v float64) {
	if err := Encode(d, []float64{v}, o.Buffer.(*hostBuffer).mem[(o.Offset+i)*d.Size():]); err != nil {
		panic(err)
	}
}

func (g *hostGemm) multiply(p Task, a, b, c Operand) error {
	f, in, out := g.faults, p.DType, p.DType.Output()
	g.launches++
	if f.fails {
		return errors.New("the kernel died")
	}
	for i := range p.M {
		for j := range p.N {
			if f.dropLastRow && i == p.M-1 && p.M > 1 || f.skipElement && i == p.M/2 && j == p.N/2 {
				continue
			}
			end := p.K
			if f.dropTile && p.K > 16 {
				end -= 16
			}
			if f.dropTail && p.K%2 == 1 && p.K > 1 {
				end--
			}
			var sum, pair float64
			for k := range end {
				at := k*p.LDB + j
				if p.Layout == Transposed {
					at = j*p.LDB + k
				}
				left, right := f.operand(in, a.get(in, i*p.LDA+k), f.zeroA), f.operand(in, b.get(in, at), f.zeroB)
				if f.skipZeros && left == 0 {
					continue
				}
				term := left * right
				if f.saturate { // (a+128)·b in pairs, minus 128·b
					b := b.get(in, at)
					sum -= 128 * b
					if pair += term + 128*b; k%2 == 1 || k == end-1 {
						sum += max(-32768, min(32767, pair))
						pair = 0
					}
					continue
				}
				sum += term
				if in != INT8 {
					sum = float64(float32(sum))
				}
				if f.halfSums {
					sum = roundTo(out, sum)
				}
				if f.overflowInOut && math.IsInf(roundTo(out, sum), 0) {
					sum = roundTo(out, sum)
				}
			}
			if f.nextRow && i+1 < p.M {
				sum += 0 * a.get(in, (i+1)*p.LDA)
			}
			if f.sumsInFP32 {
				sum = float64(float32(sum))
			}
			if f.dropNaN && math.IsNaN(sum) {
				sum = 0
			}
			if largest := map[DType]float64{FP16: 65504, BF16: 0x1.fep127}[out]; f.saturateOut && largest > 0 && !math.IsNaN(sum) {
				sum = max(-largest, min(largest, sum))
			}
			if f.readPastRow {
				sum += 0 * a.get(in, i*p.LDA+p.K)
			}
			if f.readPastB {
				rows := p.K
				if p.Layout == Transposed {
					rows = p.N
				}
				sum += b.get(in, rows*p.LDB)
			}
			if f.drift && i == 0 && j == 0 {
				sum += float64(g.launches) * 1e-6
			}
			if f.wrongRounding {
				if r := roundTo(out, sum); r > sum && sum > 0 {
					sum = DecodeBF16(EncodeBF16(r) - 1)
				}
			}
			col := j
			if f.swapColumns && j < 2 && p.N > 1 {
				col = 1 - j
			}
			if f.accumulate {
				sum += c.get(out, i*p.LDC+col)
			}
			c.put(out, i*p.LDC+col, sum)
		}
		if f.pastRow && p.LDC > p.N {
			c.put(out, i*p.LDC+p.N, 0)
		}
	}
	if f.pastEnd {
		c.put(out, p.M*p.LDC, 0)
	}
	if f.beforeC {
		c.put(out, -1, 0)
	}
	if f.writeA {
		a.put(in, 0, 3)
	}
	return nil
}

func (f faults) operand(d DType, v float64, zero bool) float64 {
	if zero {
		v = checkOperands{a: []float64{v}}.withoutSubnormals(d).a[0]
	}
	if f.noLowest && v == -128 {
		v = -127
	}
	return v
}

func small(d DType) []Task {
	var out []Task
	for _, p := range CheckProblems(d) {
		if p.M*p.N*p.K < 100000 {
			out = append(out, p)
		}
	}
	return out
}

func smallChecks(t *testing.T, d DType) []*GemmCheck {
	t.Helper()
	var out []*GemmCheck
	add := func(p Task, special bool) {
		c, err := NewGemmCheck(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		if special {
			c = c.Special()
		}
		out = append(out, c)
	}
	for _, p := range small(d) {
		add(p, false)
	}
	for _, p := range SpecialProblems(d) {
		if p.M*p.N*p.K < 200_000 {
			add(p, d != INT8)
		}
	}
	return out
}

func gateTypes() []DType { return DTypes() }

func TestGatePassesCorrectKernel(t *testing.T) {
	for _, dt := range gateTypes() {
		t.Run(string(dt), func(t *testing.T) {
			for _, check := range smallChecks(t, dt) {
				found, err := check.Run(t.Context(), &hostDevice{}, &hostGemm{})
				if err != nil {
					t.Fatal(err)
				}
				if found.Margin > 0.5 {
					t.Errorf("%v: a correct kernel uses %.2f of the bound", check.p, found.Margin)
				}
				if found.Subnormals != "" && found.Subnormals != SubnormalsKept {
					t.Errorf("%v: subnormal operands: %s", check.p, found.Subnormals)
				}
			}
		})
	}
}

func TestGateCatchesFaults(t *testing.T) {
	all, floats := gateTypes(), []DType{FP32, TF32, FP16, BF16, FP8}
	checks := map[DType][]*GemmCheck{}
	var kinds []CheckStep
	for _, dt := range all {
		checks[dt] = smallChecks(t, dt)
		for _, check := range checks[dt] {
			kinds = append(kinds, check.checks...)
		}
	}
	for _, c := range []struct {
		name   string
		faults faults
		check  CheckStep
		dtypes []DType
	}{
		{"one K-tile dropped", faults{dropTile: true}, CheckIntegers, all},
		{"last term of a K tail dropped", faults{dropTail: true}, CheckIntegers, all},
		{"last row dropped", faults{dropLastRow: true}, CheckUnwritten, all},
		{"one element left unwritten", faults{skipElement: true}, CheckUnwritten, all},
		{"C added to", faults{accumulate: true}, CheckUnwritten, []DType{FP32, TF32}},
		{"C added to", faults{accumulate: true}, CheckIntegers, []DType{INT8}},
		{"writes between N and ldc", faults{pastRow: true}, CheckPadding, all},
		{"writes after C", faults{pastEnd: true}, CheckPadding, all},
		{"writes before C", faults{beforeC: true}, CheckPadding, all},
		{"columns swapped", faults{swapColumns: true}, CheckIntegers, all},
		{"reads A past K", faults{readPastRow: true}, CheckOverRead, []DType{FP32, TF32, FP16, BF16, FP8}},
		{"reads B past its end", faults{readPastB: true}, CheckOverRead, []DType{FP32, FP16, BF16}},
		{"reads B past its end", faults{readPastB: true}, CheckIntegers, []DType{INT8}},
		{"sums in the output type", faults{halfSums: true}, CheckAccuracy, []DType{FP16}},
		{"sums in the output type", faults{halfSums: true}, CheckIntegers, []DType{BF16, FP8}},
		{"differs from run to run", faults{drift: true}, CheckRepeat, []DType{FP32}},
		{"writes into A", faults{writeA: true}, CheckInputs, []DType{FP32}},
		{"16-bit sums saturate", faults{saturate: true}, CheckExtremes, []DType{INT8}},
		{"truncates", faults{wrongRounding: true}, CheckAccuracy, []DType{BF16}},
		{"sums rounded to fp32", faults{sumsInFP32: true}, CheckOneSign, []DType{INT8}},
		{"-128 taken for -127", faults{noLowest: true}, CheckExtremes, []DType{INT8}},
		{"terms of zero skipped", faults{skipZeros: true}, CheckNonFinite, floats},
		{"NaN comes out as zero", faults{dropNaN: true}, CheckNonFinite, floats},
		{"the next row's elements times zero", faults{nextRow: true}, CheckNonFinite, floats},
		{"infinities become the largest number", faults{saturateOut: true}, CheckNonFinite, []DType{FP16, BF16}},
		{"overflow becomes the largest number", faults{saturateOut: true}, CheckOverflow, []DType{FP16, BF16}},
		{"partial sums overflow the output type", faults{overflowInOut: true}, CheckOverflow, []DType{FP16}},
		{"subnormal A taken for zero", faults{zeroA: true}, CheckSubnormals, []DType{FP16, FP8}},
		{"subnormal B taken for zero", faults{zeroB: true}, CheckSubnormals, []DType{FP16, FP8}},
	} {
		for _, dt := range c.dtypes {
			t.Run(fmt.Sprintf("%s/%s", c.name, dt), func(t *testing.T) {
				var found *CheckError
				for _, check := range checks[dt] {
					if slices.Contains(kinds, c.check) {
						if !slices.Contains(check.checks, c.check) {
							continue
						}
						one := *check
						one.checks, check = []CheckStep{c.check}, &one
					}
					_, err := check.Margin(t.Context(), &hostDevice{}, &hostGemm{faults: c.faults})
					if err == nil {
						continue
					}
					if !errors.As(err, &found) {
						t.Fatalf("%v: %v is no CheckError", check.p, err)
					}
					if found.Check == c.check {
						return
					}
				}
				t.Errorf("no check %q failed; the last failure was: %v", c.check, found)
			})
		}
	}
}

func TestGateMeasuresSubnormals(t *testing.T) {
	p := Task{Subject: Product("", 9, 33), M: 7}
	for _, p.DType = range []DType{FP32, TF32, BF16} {
		c, err := NewGemmCheck(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			faults faults
			want   Subnormals // empty if it fails
		}{
			{faults{}, SubnormalsKept},
			{faults{zeroA: true, zeroB: true}, SubnormalsZero},
			{faults{zeroA: true}, SubnormalsMixed},
			{faults{zeroB: true}, SubnormalsMixed},
			{faults{dropTail: true}, ""},
		} {
			found, err := c.Special().Run(t.Context(), &hostDevice{}, &hostGemm{faults: test.faults})
			if found.Subnormals != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%s %+v: subnormals %q, want %q (%v)", p.DType, test.faults, found.Subnormals, test.want, err)
			}
		}
	}
}

func TestOneSignPassesFP32(t *testing.T) {
	for k, want := range map[int]bool{1040: false, 1041: true, 4096: true} {
		p := Task{Subject: Product(INT8, 16, k), M: 16}
		if got := slices.Contains(checksOf(p), CheckOneSign); got != want {
			t.Fatalf("K %d has the check: %v", k, got)
		}
		if !want {
			continue
		}
		o := newCheckOperands(p, CheckOneSign, false, 1)
		sums, _ := o.product(p.Shape(), false)
		wrong, negative := 0, 0
		for _, sum := range sums {
			if math.Abs(sum) <= exactInFP32 {
				t.Fatalf("K %d: a sum is %g", k, sum)
			}
			if float64(float32(sum)) != sum {
				wrong++
			}
			if sum < 0 {
				negative++
			}
		}
		if wrong < 100 || negative != 128 {
			t.Errorf("K %d: fp32 changes %d of 256 sums, %d are negative", k, wrong, negative)
		}
	}
}

// One missing term of 257 must show in nearly every element of random numbers too.
func TestGateBoundSeesOneTerm(t *testing.T) {
	p := Task{Subject: Product(FP32, 16, 257), M: 8, Threads: 1}
	c, err := NewGemmCheck(p, 3)
	if err != nil {
		t.Fatal(err)
	}
	r := &checkRun{GemmCheck: c, device: &hostDevice{}, kernel: &hostGemm{faults: faults{dropTail: true}}, check: CheckAccuracy}
	err = r.run(t.Context())
	var e *CheckError
	if !errors.As(err, &e) || e.Check != CheckAccuracy {
		t.Fatalf("got %v, want a failed accuracy check", err)
	}
	if e.Wrong < 8*16*9/10 {
		t.Errorf("a missing term was seen in %d of 128 elements", e.Wrong)
	}
}

func TestGateReportsWhereAndWhat(t *testing.T) {
	p := Task{Subject: Product(BF16, 4, 40), M: 3, LDC: 9}
	for _, c := range []struct {
		faults faults
		want   string
	}{
		{faults{pastRow: true},
			"check: host/host/bf16/m3 n4 k40 (lda 40 ldb 4 ldc 9, B kn): padding: element (0,4) is 0: written outside of C (3 elements)"},
		{faults{beforeC: true}, "padding: element (-1,8) is 0: written outside of C"},
		{faults{pastEnd: true}, "padding: element (3,0) is 0"},
		{faults{skipElement: true}, "unwritten: element (1,2) is NaN: C was not written here"},
		{faults{swapColumns: true}, "integers: element (0,"},
		{faults{writeA: true}, "inputs: element (0,0) is 3, expected "},
	} {
		err := CheckGemm(t.Context(), &hostDevice{}, &hostGemm{faults: c.faults}, p, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want it to contain %q", err, c.want)
		}
	}
}

func TestGateRefusalsAndFailures(t *testing.T) {
	p := Task{Subject: Product(FP32, 2, 2), M: 2}
	var u *Unsupported
	if err := CheckGemm(t.Context(), &hostDevice{}, &hostGemm{refuses: true}, p, 1); !errors.As(err, &u) {
		t.Errorf("a refusal came back as %v", err)
	}
	s, err := CheckKernel(t.Context(), &hostDevice{}, &hostGemm{refuses: true}, FP32, 1)
	if err != nil || s.Passed != 0 ||
		len(s.Skipped) != len(CheckProblems(FP32))+len(SpecialProblems(FP32))+len(GateBatches(FP32))+len(SpecialBatches(FP32)) {
		t.Errorf("a kernel that refuses everything: %d passed, %d skipped, %v", s.Passed, len(s.Skipped), err)
	}
	var e *CheckError
	err = CheckGemm(t.Context(), &hostDevice{}, &hostGemm{faults: faults{fails: true}}, p, 1)
	if err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), "the kernel died") {
		t.Errorf("a launch that fails came back as %v", err)
	}
	if _, err := CheckKernel(t.Context(), &hostDevice{}, &hostGemm{faults: faults{dropTile: true}}, FP16, 1); !errors.As(err, &e) {
		t.Errorf("a faulty kernel came back as %v", err)
	}
	p.N = 0
	if CheckGemm(t.Context(), &hostDevice{}, &hostGemm{}, p, 1) == nil {
		t.Error("N = 0 passed")
	}
}

func TestGateProblemsCover(t *testing.T) {
	for _, dt := range DTypes() {
		var layouts, loose, tight, inside, threads, decode, aligned, alone int
		for _, p := range CheckProblems(dt) {
			n, err := p.Normalized()
			if err != nil {
				t.Fatal(err)
			}
			if n.Layout == Transposed {
				layouts++
			}
			if n.LDA > n.K && n.LDC > n.N {
				loose++
			}
			if n.LDA == n.K && n.LDC == n.N {
				tight++
			}
			if n.PackInside {
				inside++
			}
			if n.Threads == 1 {
				threads++
			}
			if n.M == 1 && n.K > 64 {
				decode++
			}
			if n.M == 1 && n.Threads == 1 {
				alone++
			}
			if n.Layout == Transposed && n.M > 1 && n.LDA == n.K && n.LDB == n.K && n.K%128 == 0 {
				aligned++
			}
		}
		if min(layouts, loose, tight, inside, threads, decode, aligned, alone) == 0 {
			t.Errorf("%s: a kind is missing: %d %d %d %d %d %d %d %d", dt, layouts, loose, tight, inside, threads, decode, aligned, alone)
		}
	}
}
