package kernels

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hostSoftmax is softmax in plain Go with fp32 sums, correct unless a fault is set. Faults show in rows of
// more than three columns.
type hostSoftmax struct {
	StoresNothing
	TellsNothing
	wrongElement   bool // one element is off by a tenth
	wrongLast      bool // the last element of the last row is off by a tenth
	noMask         bool
	maskEarly      bool // misses the last visible element
	maskLate       bool // sees one element too many
	maskByProduct  bool // multiplies masked elements by zero
	maskedUnset    bool // does not write masked elements
	dropLast       bool // omits the last element from the sum
	dropLastMax    bool // omits the last element from the maximum
	unnormalized   bool // does not divide by the sum
	noMax          bool // does not subtract the maximum
	zeroMax        bool // starts the maximum at zero
	noScale        bool
	wrongScale     bool // by a hundredth
	neighboursSum  bool // divides by the previous row's sum
	lastRow        bool // does not write the last row
	lastColumn     bool // does not write the last column
	naturalForLog  bool // returns softmax instead of its logarithm
	halfSums       bool // sums in the operand's type
	halfExponents  bool // rounds exponentials to the operand's type
	nanIsLow       bool // ignores NaN in the maximum and counts it as -Inf
	allLowIsZero   bool // gives zeros for a row of -Inf
	clamps         bool // clamps overflowing logarithms to the lowest number
	pastEnd        bool
	beforeBegin    bool
	writeInput     bool
	drift          bool
	strays         bool // writes the first byte of the output buffer in every second run
	readsNeighbour bool // adds the element after the row to the sum

	runs, threads int
}

func (*hostSoftmax) Name() string     { return "host" }
func (*hostSoftmax) Describe() string { return "softmax in Go" }

func (f *hostSoftmax) Supports(p Task) error {
	if p.Columns == 13 {
		return p.Unsupported("host", "it has no thirteen columns")
	}
	_, err := p.Softmax("host", f.threads)
	return err
}

func (f *hostSoftmax) Bind(p Task, in Operand, _ Weights, out Operand, _ ...Operand) (Launch, error) {
	if err := f.Supports(p); err != nil {
		return nil, err
	}
	return hostLaunch(func() error {
		f.runs++
		sum := float32(1)
		for row := range p.M {
			if f.lastRow && row == p.M-1 {
				break
			}
			sum = f.row(p, in, out, row, sum)
		}
		n := p.M * p.Columns
		if f.pastEnd {
			out.put(p.DType, n, 0)
		}
		if f.beforeBegin {
			out.put(p.DType, -1, 0)
		}
		if f.writeInput {
			in.put(p.DType, n-1, 17)
		}
		if f.drift && f.runs%2 == 0 {
			out.put(p.DType, 0, out.get(p.DType, 0)-0.25)
		}
		if f.strays && f.runs%2 == 0 {
			out.Buffer.(*hostBuffer).mem[0] ^= 1
		}
		return nil
	}), nil
}

func (f *hostSoftmax) row(p Task, in, out Operand, row int, before float32) float32 {
	at, seen := row*p.Columns, p.Seen(row)
	switch {
	case f.noMask:
		seen = p.Columns
	case f.maskEarly && p.Queries != 0:
		seen = max(1, seen-1)
	case f.maskLate:
		seen = min(p.Columns, seen+1)
	}
	scale := p.Scale
	if f.noScale {
		scale = 1
	}
	if f.wrongScale {
		scale *= 1.01
	}
	z := func(i int) float32 {
		x := float32(in.get(p.DType, at+i))
		if f.nanIsLow && x != x {
			return float32(math.Inf(-1))
		}
		return x * scale
	}
	end := seen
	if f.dropLastMax && seen > 3 {
		end--
	}
	top := float32(math.Inf(-1))
	if f.zeroMax {
		top = 0
	}
	for i := range end {
		top = max(top, z(i))
	}
	if f.noMax {
		top = 0
	}
	e := func(i int) float32 {
		v := float32(math.Exp(float64(z(i) - top)))
		if f.halfExponents {
			v = float32(roundTo(p.DType, float64(v)))
		}
		return v
	}
	end = seen
	if f.dropLast && seen > 3 {
		end--
	}
	if f.readsNeighbour {
		end++
	}
	var sum float32
	for i := range end {
		sum += e(i)
		if f.halfSums {
			sum = float32(roundTo(p.DType, float64(sum)))
		}
	}
	if f.maskByProduct {
		for i := seen; i < p.Columns; i++ {
			sum += 0 * e(i)
		}
	}
	log := math.Log(float64(sum))
	by := sum
	if f.neighboursSum {
		by = before
	}
	if f.unnormalized {
		by, log = 1, 0
	}
	for i := range p.Columns {
		if f.lastColumn && i == p.Columns-1 {
			break
		}
		v := p.masked()
		switch {
		case i >= seen && f.maskedUnset:
			continue
		case i >= seen:
		case p.Log() && !f.naturalForLog:
			v = float64(z(i)-top) - log
		default:
			v = float64(e(i) / by)
		}
		if f.clamps && p.Log() && !math.IsInf(v, 0) {
			v = max(v, -65504)
		}
		if f.allLowIsZero && math.IsInf(float64(top), -1) {
			v = 0
		}
		if f.wrongElement && row == p.M/2 && i == seen/2 || f.wrongLast && row == p.M-1 && i == seen-1 {
			v *= 1.1
		}
		out.put(p.DType, at+i, v)
	}
	return sum
}

func TestSoftmaxGateAcceptsCorrect(t *testing.T) {
	for _, d := range []DType{FP32, FP16, BF16} {
		for _, p := range SoftmaxProblems(d) {
			if p.M*p.Columns > 5000 {
				continue
			}
			margin, err := SoftmaxGate(t.Context(), &hostDevice{}, &hostSoftmax{}, p, 1)
			if err != nil {
				t.Error(err)
			}
			if margin > 0.5 {
				t.Errorf("%v: margin %.3f, expected at most a half of the bound", p, margin)
			}
		}
	}
}

func TestSoftmaxGateCatches(t *testing.T) {
	for _, c := range []struct {
		name   string
		faulty hostSoftmax
		check  CheckStep
	}{
		{"wrong element", hostSoftmax{wrongElement: true}, CheckAccuracy},
		{"wrong last element", hostSoftmax{wrongLast: true}, CheckAccuracy},
		{"no mask", hostSoftmax{noMask: true}, CheckAccuracy},
		{"mask early", hostSoftmax{maskEarly: true}, CheckAccuracy},
		{"mask late", hostSoftmax{maskLate: true}, CheckAccuracy},
		{"mask by product", hostSoftmax{maskByProduct: true}, CheckAccuracy},
		{"masked unset", hostSoftmax{maskedUnset: true}, CheckUnwritten},
		{"drops the last", hostSoftmax{dropLast: true}, CheckAccuracy},
		{"drops the last of the largest", hostSoftmax{dropLastMax: true}, CheckAccuracy},
		{"unnormalized", hostSoftmax{unnormalized: true}, CheckAccuracy},
		{"no max", hostSoftmax{noMax: true}, CheckAccuracy},
		{"max from zero", hostSoftmax{zeroMax: true}, CheckAccuracy},
		{"no scale", hostSoftmax{noScale: true}, CheckAccuracy},
		{"wrong scale", hostSoftmax{wrongScale: true}, CheckAccuracy},
		{"neighbour's sum", hostSoftmax{neighboursSum: true}, CheckAccuracy},
		{"last row", hostSoftmax{lastRow: true}, CheckUnwritten},
		{"last column", hostSoftmax{lastColumn: true}, CheckUnwritten},
		{"no logarithm", hostSoftmax{naturalForLog: true}, CheckAccuracy},
		{"sums in 16 bits", hostSoftmax{halfSums: true}, CheckAccuracy},
		{"exponentials in 16 bits", hostSoftmax{halfExponents: true}, CheckAccuracy},
		{"NaN as -Inf", hostSoftmax{nanIsLow: true}, CheckAccuracy},
		{"zeros for a row of -Inf", hostSoftmax{allLowIsZero: true}, CheckAccuracy},
		{"past the end", hostSoftmax{pastEnd: true}, CheckPadding},
		{"before the beginning", hostSoftmax{beforeBegin: true}, CheckPadding},
		{"writes its input", hostSoftmax{writeInput: true}, CheckInputs},
		{"drift", hostSoftmax{drift: true}, CheckRepeat},
		{"strays in a later run", hostSoftmax{strays: true}, CheckRepeat},
		{"reads its neighbour", hostSoftmax{readsNeighbour: true}, CheckAccuracy},
	} {
		for _, d := range []DType{FP32, FP16, BF16} {
			if d == FP32 && (c.faulty.halfSums || c.faulty.halfExponents) {
				continue // no fault there
			}
			t.Run(fmt.Sprintf("%s/%s", c.name, d), func(t *testing.T) {
				caught := 0
				for _, log := range []bool{false, true} {
					faulty := c.faulty
					p := Task{Subject: Subject{Operation: SoftmaxOperation(log), DType: d, Dims: Dims{Columns: 300, Queries: 300}}, M: 23,
						Scale: 0.25}
					_, err := SoftmaxGate(t.Context(), &hostDevice{}, &faulty, p, 1)
					var failure *ElementError
					if errors.As(err, &failure) {
						caught++
						if failure.Check != c.check {
							t.Errorf("log %v: failed at %s, expected %s: %v", log, failure.Check, c.check, err)
						}
					} else if err != nil {
						t.Error(err)
					}
				}
				if c.faulty.naturalForLog || c.faulty.halfExponents || c.faulty.halfSums || c.faulty.neighboursSum {
					caught *= 2
				}
				if caught < 2 {
					t.Error("it passed")
				}
			})
		}
	}
}

func TestSoftmaxGateOnShortRows(t *testing.T) {
	for _, columns := range []int{4, 5, 31, 1024} {
		for _, faulty := range []hostSoftmax{{dropLast: true}, {dropLastMax: true}, {readsNeighbour: true}, {wrongLast: true}} {
			p := Task{Subject: Subject{Operation: Softmax, DType: BF16, Dims: Dims{Columns: columns}}, M: 8}
			var failure *ElementError
			if _, err := SoftmaxGate(t.Context(), &hostDevice{}, &faulty, p, 1); !errors.As(err, &failure) {
				t.Errorf("%d columns, %+v: %v", columns, faulty, err)
			}
		}
	}
}

func TestSoftmaxProblemsCover(t *testing.T) {
	for _, d := range []DType{FP32, FP16, BF16} {
		plain := map[bool]map[int]bool{false: {}, true: {}}
		var whole, part int
		for _, p := range SoftmaxProblems(d) {
			switch {
			case p.Queries == 0:
				plain[p.Log()][p.Columns] = true
			case p.M%p.Queries == 0:
				whole++
			default:
				part++
			}
		}
		for _, columns := range []int{1, 2, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513,
			1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 8192, 8193, 16384, 16385} {
			for log, has := range plain {
				if !has[columns] {
					t.Errorf("%s: no rows of %d columns without a mask, logarithm %v", d, columns, log)
				}
			}
		}
		if whole == 0 || part == 0 {
			t.Errorf("%s: %d masks with whole sequences, %d with a part of one", d, whole, part)
		}
	}
}

func TestSoftmaxGateReports(t *testing.T) {
	p := Task{Subject: Subject{Operation: Softmax, DType: FP16, Dims: Dims{Columns: 8, Queries: 2}}, M: 3}
	_, err := SoftmaxGate(t.Context(), &hostDevice{}, &hostSoftmax{lastRow: true}, p, 1)
	want := "check: host/host: softmax fp16 m3 c8 q2 scale 1, normal rows: unwritten: element (2,0) is NaN: it was not written (8 elements)"
	if err == nil || err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
	var refused *Unsupported
	if _, err := SoftmaxGate(t.Context(), &hostDevice{}, &hostSoftmax{},
		Task{Subject: Subject{Operation: Softmax, DType: FP16, Dims: Dims{Columns: 13}}, M: 1}, 1); !errors.As(err, &refused) {
		t.Errorf("a kernel that refuses: %v", err)
	}
	s, err := CheckSoftmax(t.Context(), &hostDevice{}, &hostSoftmax{}, INT8, 1)
	if err != nil || s.Passed != 0 || len(s.Skipped) != 1 {
		t.Errorf("int8: %+v, %v", s, err)
	}
}

func TestSoftmaxProblemNormalized(t *testing.T) {
	for _, c := range []struct {
		p    Task
		want string
	}{
		{Task{Subject: Subject{Operation: Softmax, DType: FP32, Dims: Dims{Columns: 4}}},
			"softmax fp32 m0 c4: expected at least 1 row and 1 column"},
		{Task{Subject: Subject{Operation: LogSoftmax, DType: FP32}, M: 4}, "log-softmax fp32 m4 c0: expected at least 1 row and 1 column"},
		{Task{Subject: Subject{Operation: Softmax, DType: FP8, Dims: Dims{Columns: 4}}, M: 4},
			"softmax fp8 m4 c4: expected fp32, fp16 or bf16"},
		{Task{Subject: Subject{Operation: Softmax, DType: FP32, Dims: Dims{Columns: 4, Queries: 5}}, M: 4},
			"softmax fp32 m4 c4 q5: 5 queries, expected 0 to the 4 columns"},
		{Task{Subject: Subject{Operation: Softmax, DType: FP32, Dims: Dims{Columns: 4}}, M: 4, Scale: -1},
			"softmax fp32 m4 c4: scale -1, expected 0 to 9.223372e+18"},
		{Task{Subject: Subject{Operation: Softmax, DType: FP32, Dims: Dims{Columns: 4}}, M: 4, Scale: float32(math.NaN())},
			"softmax fp32 m4 c4: scale NaN, expected 0 to 9.223372e+18"},
	} {
		if _, err := c.p.Normalized(); err == nil || err.Error() != c.want {
			t.Errorf("%v, expected %s", err, c.want)
		}
	}
	p, err := Task{Subject: Subject{Operation: Softmax, DType: BF16, Dims: Dims{Columns: 1}}, M: 1}.Normalized()
	if err != nil || p.Scale != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestSoftmaxSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 40).Draw(t, "columns")
		queries := rapid.IntRange(0, columns).Draw(t, "queries")
		s := Subject{Operation: Softmax, DType: FP16, Dims: Dims{Columns: columns, Queries: queries}}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		task := Task{Subject: s, M: rapid.IntRange(1, 100).Draw(t, "m")}
		p := task
		all := 0
		for row := range task.M {
			n := p.Seen(row)
			if n < 1 || n > columns || queries != 0 && row%queries == queries-1 && n != columns {
				t.Fatalf("row %d sees %d of %d columns", row, n, columns)
			}
			all += n
		}
		if got, want := s.Bytes(task.M), float64(2*all+2*task.M*columns); got != want {
			t.Fatalf("%d bytes seen and written are counted as %g", int(want), got)
		}
		if got := s.FLOPs(task.M); got != float64(5*all) {
			t.Fatalf("%d FLOPs are counted as %g", 5*all, got)
		}
	})
	// More queries than columns would leave rows without a visible column.
	s := Subject{Operation: Softmax, DType: FP16, Dims: Dims{Columns: 4, Queries: 5}}
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "queries is 5, expected at most the 4 columns") {
		t.Errorf("%v", err)
	}
}

func TestSoftmaxGateCatchesClampedLogarithms(t *testing.T) {
	p := Task{Subject: Subject{Operation: LogSoftmax, DType: FP16, Dims: Dims{Columns: 9}}, M: 16, Scale: 1}
	if _, err := SoftmaxGate(t.Context(), &hostDevice{}, &hostSoftmax{}, p, 1); err != nil {
		t.Error(err)
	}
	_, err := SoftmaxGate(t.Context(), &hostDevice{}, &hostSoftmax{clamps: true}, p, 1)
	var wrong *ElementError
	if !errors.As(err, &wrong) || wrong.Got != -65504 || wrong.Row%8 != 7 {
		t.Errorf("logarithms that are clamped: %v", err)
	}
}

func TestSoftmaxThreads(t *testing.T) {
	for _, c := range []struct {
		device, threads int
		ok              bool
	}{{0, 0, true}, {0, 3, true}, {8, 0, true}, {8, 8, true}, {8, 3, false}} {
		task := Task{Subject: Subject{Operation: Softmax, DType: FP32, Dims: Dims{Columns: 5}}, M: 2, Threads: c.threads}
		err := (&hostSoftmax{threads: c.device}).Supports(task)
		var refused *Unsupported
		if (err == nil) != c.ok || err != nil && !errors.As(err, &refused) {
			t.Errorf("%d threads of %d: %v", c.threads, c.device, err)
		}
	}
}
