package kernels

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// hostDevice is the smallest device there is: memory of the process, and one
// kernel in plain Go.
type hostDevice struct{ gemms []Gemm }

type hostBuffer struct{ mem []byte }

type hostWeights struct{ Operand }

type hostLaunch func() error

func (hostLaunch) Label() string { return "" }

func (hostWeights) Bytes() int64 { return 0 }
func (hostWeights) Close() error { return nil }

func (b *hostBuffer) Bytes() int64                                  { return int64(len(b.mem)) }
func (b *hostBuffer) Fill(Distribution, DType, int64, uint64) error { return errors.ErrUnsupported }
func (b *hostBuffer) Upload(off int64, src []byte) error            { copy(b.mem[off:], src); return nil }
func (b *hostBuffer) Download(off int64, dst []byte) error          { copy(dst, b.mem[off:]); return nil }
func (b *hostBuffer) Close() error                                  { return nil }

func (d *hostDevice) Spec() Spec                                 { return Spec{ID: "host"} }
func (d *hostDevice) Ceilings(context.Context) (Ceilings, error) { return Ceilings{}, nil }
func (d *hostDevice) Gemms() []Gemm                              { return d.gemms }
func (d *hostDevice) Missing() []Missing                         { return nil }
func (d *hostDevice) Alloc(bytes int64) (Buffer, error)          { return &hostBuffer{make([]byte, bytes)}, nil }
func (d *hostDevice) Telemetry() Telemetry                       { return Telemetry{} }
func (d *hostDevice) Close() error                               { return nil }
func (d *hostDevice) Execute(_ context.Context, l []Launch, n int) (Span, error) {
	for i := range n {
		if err := l[i%len(l)].(hostLaunch)(); err != nil {
			return Span{}, err
		}
	}
	return Span{Seconds: 1}, nil
}

// hostGemm is correct unless one of its faults is set.
type hostGemm struct {
	refuses  bool
	faults   faults
	launches int // counts over the life of the kernel
}

// faults are the ways in which kernels go wrong.
type faults struct {
	dropTile      bool // the last 16 of K, where there are more
	dropTail      bool // the last term of K where K is odd
	dropLastRow   bool // the last row of C is never computed
	skipElement   bool // one element is left as it was
	accumulate    bool // C += instead of C =
	pastRow       bool // writes C[i][N] where ldc > N
	pastEnd       bool // writes one element after the last row
	beforeC       bool // writes one element before C
	swapColumns   bool // columns 0 and 1
	readPastRow   bool // multiplies A[i][K] by zero
	readPastB     bool // adds the element after B's last
	halfSums      bool // keeps the sum in the output type
	drift         bool // another result at each run
	writeA        bool // clobbers A
	saturate      bool // int8: pairs of unsigned × signed products saturate at 16 bits (VPMADDUBSW)
	wrongRounding bool // truncates to the output type
	fails         bool
}

func (g *hostGemm) Name() string     { return "host" }
func (g *hostGemm) Describe() string { return "plain Go" }

func (g *hostGemm) Supports(p Problem) error {
	if g.refuses {
		return &Unsupported{Kernel: "host", DType: p.DType, Reason: "it refuses everything"}
	}
	return nil
}

func (g *hostGemm) PrepareWeights(_ Problem, raw Buffer) (Weights, error) {
	return hostWeights{Operand{Buffer: raw}}, nil
}

func (g *hostGemm) Bind(p Problem, a Operand, w Weights, c Operand) (Launch, error) {
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

func (g *hostGemm) multiply(p Problem, a, b, c Operand) error {
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
				if p.BLayout == Transposed {
					at = j*p.LDB + k
				}
				term := a.get(in, i*p.LDA+k) * b.get(in, at)
				if f.saturate { // (a+128)·b in pairs, less 128·b
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
			}
			if f.readPastRow {
				sum += 0 * a.get(in, i*p.LDA+p.K)
			}
			if f.readPastB {
				rows := p.K
				if p.BLayout == Transposed {
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

// small is the standing table without its largest problems, which plain Go is
// too slow for.
func small(d DType) []Problem {
	var out []Problem
	for _, p := range CheckProblems(d) {
		if p.M*p.N*p.K < 100000 {
			out = append(out, p)
		}
	}
	return out
}

func gateTypes() []DType { return DTypes() }

func TestGatePassesCorrectKernel(t *testing.T) {
	for _, dt := range gateTypes() {
		t.Run(string(dt), func(t *testing.T) {
			for _, p := range small(dt) {
				margin, err := CheckMargin(t.Context(), &hostDevice{}, &hostGemm{}, p, 1)
				if err != nil {
					t.Fatal(err)
				}
				if margin > 0.5 {
					t.Errorf("%v: a correct kernel uses %.2f of the bound", p.Shape, margin)
				}
			}
		})
	}
}

// TestGateCatchesFaults: every fault is found, by the check that names it.
func TestGateCatchesFaults(t *testing.T) {
	all := gateTypes()
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
	} {
		for _, dt := range c.dtypes {
			t.Run(fmt.Sprintf("%s/%s", c.name, dt), func(t *testing.T) {
				var found *CheckError
				for _, p := range small(dt) {
					err := CheckGemm(t.Context(), &hostDevice{}, &hostGemm{faults: c.faults}, p, 1)
					if err == nil {
						continue // a shape that does not meet the fault
					}
					if !errors.As(err, &found) {
						t.Fatalf("%v: %v is no CheckError", p.Shape, err)
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

// TestGateBoundSeesOneTerm: on random numbers too, one missing term of 257 is seen
// in nearly every element.
func TestGateBoundSeesOneTerm(t *testing.T) {
	p := Problem{Shape: Shape{M: 8, N: 16, K: 257}, DType: FP32, Threads: 1}
	c, err := NewGemmCheck(p, 3)
	if err != nil {
		t.Fatal(err)
	}
	r := &checkRun{GemmCheck: c, device: &hostDevice{}, gemm: &hostGemm{faults: faults{dropTail: true}}, check: CheckAccuracy}
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
	p := Problem{Shape: Shape{M: 3, N: 4, K: 40}, DType: BF16, LDC: 9}
	for _, c := range []struct {
		faults faults
		want   string
	}{
		{faults{pastRow: true}, "check: host/host/bf16/m3 n4 k40 (lda 40 ldb 4 ldc 9, B kn): padding: element (0,4) is 0: written outside of C (3 elements)"},
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
	p := Problem{Shape: Shape{M: 2, N: 2, K: 2}, DType: FP32}
	var u *Unsupported
	if err := CheckGemm(t.Context(), &hostDevice{}, &hostGemm{refuses: true}, p, 1); !errors.As(err, &u) {
		t.Errorf("a refusal came back as %v", err)
	}
	s, err := CheckKernel(t.Context(), &hostDevice{}, &hostGemm{refuses: true}, FP32, 1)
	if err != nil || s.Passed != 0 || len(s.Skipped) != len(CheckProblems(FP32)) {
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

// TestGateProblemsCover: the table has what its comment promises.
func TestGateProblemsCover(t *testing.T) {
	for _, dt := range DTypes() {
		var layouts, loose, tight, inside, threads, decode int
		for _, p := range CheckProblems(dt) {
			n, err := p.Normalized()
			if err != nil {
				t.Fatal(err)
			}
			if n.BLayout == Transposed {
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
		}
		if min(layouts, loose, tight, inside, threads, decode) == 0 {
			t.Errorf("%s: a kind is missing: %d %d %d %d %d %d", dt, layouts, loose, tight, inside, threads, decode)
		}
	}
}
