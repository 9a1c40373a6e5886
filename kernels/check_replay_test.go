package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// recording runs the launches of another kernel, recorded or not. Each lie is a way to replay them wrongly.
type recording struct {
	Kernel
	lie   string
	packs bool

	cached  map[string][]byte
	members []*recordedLaunch // of the recording
	records int
	// leftover is what unwritten memory contains.
	leftover int
}

type recordedLaunch struct {
	k       *recording
	t       Task
	in, out Operand
	weights Weights
	// in0 and stored0 are the buffers at the recording, result the output of an earlier run.
	in0, stored0, result []byte
	recorded             bool
	runs                 int
}

func (l *recordedLaunch) Label() string { return "" }

func (k *recording) Packs(Task) bool { return k.packs }

func (k *recording) ScalesSums(t Task) bool {
	s, ok := k.Kernel.(SumScaler)
	return ok && s.ScalesSums(t)
}

func (k *recording) Prepare(t Task, raw Buffer) (Weights, error) {
	if !k.packs {
		return k.Kernel.Prepare(t, raw)
	}
	packed := slices.Clone(raw.(*hostBuffer).mem)
	if k.lie == "packing by shape" {
		packed = k.once(t.String()+t.Layout.String(), packed)
	}
	return k.Kernel.Prepare(t, &hostBuffer{packed})
}

func (k *recording) Bind(t Task, in Operand, w Weights, out Operand, _ ...Operand) (Launch, error) {
	t, err := t.Normalized()
	return &recordedLaunch{k: k, t: t, in: in, weights: w, out: out}, err
}

func (k *recording) Record(_ context.Context, launches []Launch) error {
	if k.lie == "no recording" {
		return errors.New("the capture failed")
	}
	k.members = nil
	for _, l := range launches {
		l := l.(*recordedLaunch)
		l.in0 = slices.Clone(l.in.Buffer.(*hostBuffer).mem)
		if w, ok := l.weights.(hostWeights); ok {
			l.stored0 = slices.Clone(w.Buffer.(*hostBuffer).mem)
		}
		if err := l.run(); err != nil { // as a warm-up does
			return err
		}
		l.recorded, l.runs = true, 0
		k.records++
		k.members = append(k.members, l)
	}
	return nil
}

// once returns the content that a key had first.
func (k *recording) once(key string, content []byte) []byte {
	if k.cached == nil {
		k.cached = map[string][]byte{}
	}
	if k.cached[key] == nil {
		k.cached[key] = slices.Clone(content)
	}
	return k.cached[key]
}

func (l *recordedLaunch) other() *recordedLaunch {
	return l.k.members[(slices.Index(l.k.members, l)+1)%len(l.k.members)]
}

func (l *recordedLaunch) run() error {
	t, in, weights, out, k := l.t, l.in, l.weights, l.out, l.k
	mem := out.Buffer.(*hostBuffer).mem
	l.runs++
	b, stores := weights.(hostWeights)
	if k.lie == "packed once" {
		b = hostWeights{Operand{Buffer: &hostBuffer{k.once(t.String()+t.Layout.String(), b.Buffer.(*hostBuffer).mem)}}}
	}
	if l.recorded {
		switch k.lie {
		case "stale A", "stale":
			in.Buffer = &hostBuffer{l.in0}
		case "neighbor's A":
			in.Buffer = l.other().in.Buffer
		case "neighbor's launch":
			in.Buffer = l.other().in.Buffer
			b, _ = l.other().weights.(hostWeights)
		case "neighbor's output":
			out.Buffer = l.k.members[0].out.Buffer
			mem = out.Buffer.(*hostBuffer).mem
		}
		if k.lie == "stale B" || k.lie == "stale" {
			b = hostWeights{Operand{Buffer: &hostBuffer{l.stored0}}}
		}
	}
	if stores {
		weights = b
	}
	size := t.OutputType().Size()
	written := t
	if k.lie == "without gaps" {
		written.LDC = t.N
	}
	before := slices.Clone(mem)
	launch, err := k.Kernel.Bind(written, in, weights, out)
	if err != nil {
		return err
	}
	if err := launch.(interface{ run() error }).run(); err != nil {
		return err
	}
	first := out.Offset * size
	middle := int(t.OutputElements(t.M)) / 2 * size
	if t.Operation.IsProduct() {
		middle = (t.M/2*t.LDC + t.N/2) * size
	}
	element := mem[first+middle:][:size]
	switch k.lie {
	case "result by shape":
		copy(mem, k.once(t.String()+t.Layout.String(), mem))
	case "result by launch":
		if l.recorded && l.result == nil {
			l.result = slices.Clone(mem)
		} else if l.recorded {
			copy(mem, l.result)
		}
	case "transposed":
		c := Operand{Buffer: &hostBuffer{slices.Clone(mem)}, Offset: out.Offset}
		for i := range t.M {
			for j := range t.N {
				out.put(t.OutputType(), j*t.M+i, c.get(t.OutputType(), i*t.LDC+j))
			}
		}
	case "wrong at M 13":
		if t.M == 13 {
			copy(element, make([]byte, size))
		}
	}
	if !l.recorded {
		return nil
	}
	switch k.lie {
	case "unwritten":
		copy(element, before[first+middle:])
	case "unwritten, own output":
		copy(element, bytes.Repeat([]byte{0x5a}, size))
	case "unwritten, own output of NaN":
		if err := Encode(t.OutputType(), []float64{math.NaN()}, element); err != nil {
			return err
		}
	case "leftovers":
		copy(element, bytes.Repeat([]byte{byte(k.leftover)}, size))
		k.leftover++
	case "right only when called":
		copy(element, make([]byte, size))
	case "wrong when run again":
		if l.runs > 2 {
			copy(element, make([]byte, size))
		}
	case "writes outside":
		copy(mem, make([]byte, size))
	}
	return nil
}

const saysRecorded = " of the recording: "

func TestReplayOfProducts(t *testing.T) {
	for _, c := range []struct {
		lie   string
		packs bool
		want  string // empty if it passes
	}{
		{"", false, ""},
		{"", true, ""},
		{"stale A", false, "replay: element (0,0) is "},
		{"stale A", false, "the replay computed with A" + saysRecorded},
		{"stale A", true, "the replay computed with A" + saysRecorded},
		{"stale B", false, "the replay computed with B of the recording: packed, cached"},
		{"stale", false, "the replay computed with A and B" + saysRecorded},
		{"packed once", false, "the replay computed with B of the recording: packed, cached"},
		{"packing by shape", true, "the replay computed with B of the other launch: packed, cached"},
		{"unwritten", false, replayUnset},
		{"unwritten, own output", false, replayUnset},
		{"unwritten, own output of NaN", false, replayUnset},
		{"leftovers", false, replayDrifts},
		{"result by shape", false, "both launches gave the first one's result, of the recording: "},
		{"result by launch", false, "the replay computed with A and B of the replay before: copied or cached"},
		{"right only when called", false, replayedOnly},
		{"wrong when run again", false, replayedOnly},
		{"writes outside", false, "not when called"},
		{"without gaps", false, "without gaps"},
		{"transposed", false, "C was written transposed"},
		{"wrong at M 13", false, "/m13 "},
		{"neighbor's A", false, "the replay computed with A of the other launch: copied or cached"},
		{"neighbor's launch", false, "gave the other's result"},
		{"neighbor's output", false, "the second launch wrote"},
		{"no recording", false, "replay: the capture failed"},
	} {
		for _, dt := range []DType{FP32, BF16, INT8} {
			if dt == INT8 && strings.HasSuffix(c.lie, "NaN") {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v/%s", c.lie, c.packs, dt), func(t *testing.T) {
				err := replaysOf(t, &recording{Kernel: &hostGemm{}, lie: c.lie, packs: c.packs}, dt)
				switch {
				case c.want == "" && err != nil:
					t.Error(err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("got %v, expected %q", err, c.want)
				}
			})
		}
	}
}

// replaysOf checks a kernel on some of the gate's tasks.
func replaysOf(t *testing.T, k Kernel, dt DType) error {
	t.Helper()
	for _, p := range small(dt) {
		if p.M*p.N < 16 || p.M == p.N || p.K < 16 || p.M > 20 || p.N > 70 || p.M*p.N*p.K > 60_000 {
			continue
		}
		if err := CheckGemm(t.Context(), &hostDevice{}, k, p, 1); err != nil {
			return err
		}
	}
	return nil
}

// A kernel that records nothing keeps its steps; what is wrong anyway keeps its name.
func TestReplayOnlyOfRecorders(t *testing.T) {
	k := &recording{Kernel: &hostGemm{}}
	if err := CheckGemm(t.Context(), &hostDevice{}, k, Task{Subject: Product(FP32, 5, 20), M: 4}, 1); err != nil || k.records != 2 {
		t.Errorf("%d launches were recorded, %v", k.records, err)
	}
	for _, f := range []struct {
		faults faults
		check  CheckStep
	}{
		{faults{dropTile: true}, CheckIntegers}, {faults{pastEnd: true}, CheckPadding}, {faults{writeA: true}, CheckInputs},
		{faults{swapColumns: true}, CheckIntegers}, {faults{skipElement: true}, CheckReplay},
	} {
		err := CheckGemm(t.Context(), &hostDevice{}, &recording{Kernel: &hostGemm{faults: f.faults}},
			Task{Subject: Product(FP32, 7, 20), M: 4}, 1)
		var e *CheckError
		if !errors.As(err, &e) || e.Check != f.check {
			t.Errorf("%+v: got %v, expected %s", f.faults, err, f.check)
		}
	}
}

func TestReplayOfBatchesAndQuantizedWeights(t *testing.T) {
	quantized := Task{Subject: Linear(FP16, 20, 64), M: 6}.WithWeights(IntegerWeights(4, 32, true).with(FP16, 64))
	for _, c := range []struct {
		kernel    Kernel
		task      Task
		lie, want string
	}{
		{&hostBatcher{}, Task{Subject: Linear(FP32, 9, 20), M: 5}.Batch(3), "", ""},
		{&hostBatcher{}, Task{Subject: Linear(FP32, 9, 20), M: 5}.Batch(3), "stale B", "product 0, element (0,0)"},
		{&hostQuantized{}, quantized, "", ""},
		{&hostQuantized{scales: true, inFP32: true}, quantized, "", ""},
		{&hostQuantized{}, quantized, "stale A", "the replay computed with A" + saysRecorded},
	} {
		err := CheckGemm(t.Context(), &hostDevice{}, &recording{Kernel: c.kernel, lie: c.lie}, c.task, 1)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, %q: got %v, expected %q", c.task, c.lie, err, c.want)
		}
	}
}
