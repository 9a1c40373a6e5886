package kernels

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// hostAttentionTasks is attention with keys and values as one operand.
type hostAttentionTasks struct{ TellsNothing }

func (hostAttentionTasks) Name() string     { return "host" }
func (hostAttentionTasks) Describe() string { return "attention in Go" }
func (hostAttentionTasks) Supports(t Task) error {
	if t.M > 70 {
		return t.Unsupported("host", "it is slow")
	}
	return nil
}
func (hostAttentionTasks) Prepare(_ Task, raw Buffer) (Weights, error) {
	return hostWeights{Operand{Buffer: raw}}, nil
}

func (hostAttentionTasks) Bind(t Task, in Operand, w Weights, out Operand, _ ...Operand) (Launch, error) {
	a, raw := t.Attention(), w.(hostWeights).Buffer
	a.Q, a.Out, a.Cache.Keys = in, out, Operand{Buffer: raw}
	a.Cache.Values = Operand{raw, t.KVHeads * a.Cache.Capacity * t.HeadDim}
	position := make([]byte, 4)
	position[0] = byte(t.M - a.Rows)
	a.Position = Operand{Buffer: &hostBuffer{position}}
	return (&hostAttention{}).attend(a)
}

func TestReplayOfElements(t *testing.T) {
	softmax := func(k Kernel) error {
		p := Task{Subject: Subject{Operation: LogSoftmax, DType: FP32, Dims: Dims{Columns: 40}}, M: 5, Scale: 1}
		_, err := SoftmaxGate(t.Context(), &hostDevice{}, k, p, 1)
		return err
	}
	attention := func(k Kernel) error {
		s, errs := gateAttention(t.Context(), &hostDevice{}, []Kernel{k}, FP32, 1)
		if errs[0] == nil && s[0].Passed < 20 {
			return fmt.Errorf("%d passed", s[0].Passed)
		}
		return errs[0]
	}
	for _, c := range []struct {
		lie                string
		softmax, attention string
	}{
		{"", "", ""},
		{"stale A", "the replay computed with the input" + saysRecorded, "the replay computed with the input" + saysRecorded},
		{"stale B", "", "the replay computed with keys and values of the recording: packed, cached"},
		{"unwritten", replayUnset, replayUnset},
		{"unwritten, own output of NaN", replayUnset, replayUnset},
		{"result by shape", "cached by shape", "cached by shape"},
		{"result by launch", "of the replay before", "of the replay before"},
		{"right only when called", replayedOnly, replayedOnly},
		{"writes outside", "written outside", "written outside"},
		{"neighbor's launch", "gave the other's result", "gave the other's result"},
		{"neighbor's output", "the second launch wrote", "the second launch wrote"},
	} {
		for name, gate := range map[string]struct {
			kernel Kernel
			check  func(Kernel) error
			want   string
		}{"softmax": {&hostSoftmax{}, softmax, c.softmax}, "attention": {hostAttentionTasks{}, attention, c.attention}} {
			err := gate.check(&recording{Kernel: gate.kernel, lie: c.lie})
			if gate.want == "" && err != nil || gate.want != "" && (err == nil || !strings.Contains(err.Error(), gate.want)) {
				t.Errorf("%s, %q: got %v, expected %q", name, c.lie, err, gate.want)
			}
		}
	}
}

// hostScaling multiplies each row by a stored one.
type hostScaling struct{ TellsNothing }

func (hostScaling) Name() string        { return "host" }
func (hostScaling) Describe() string    { return "scaling in Go" }
func (hostScaling) Supports(Task) error { return nil }
func (hostScaling) Prepare(_ Task, raw Buffer) (Weights, error) {
	return hostWeights{Operand{Buffer: raw}}, nil
}

func (hostScaling) Bind(t Task, in Operand, w Weights, out Operand, _ ...Operand) (Launch, error) {
	return hostLaunch(func() error {
		for i := range t.M * t.Columns {
			out.put(t.DType, i, in.get(t.DType, i)*w.(hostWeights).get(t.DType, i%t.Columns))
		}
		return nil
	}), nil
}

func TestReplayByReference(t *testing.T) {
	o, undefine := Define(Definition{
		Name: "scaling", Title: "scaling", Swept: "rows", Operand: "factors",
		Dims:   []Dim{{Name: "columns", Short: "c", In: func(d *Dims) *int { return &d.Columns }}},
		FLOPs:  func(s Subject, m float64) float64 { return m * float64(s.Columns) },
		Input:  func(s Subject, m float64) float64 { return m * float64(s.Columns) },
		Output: func(s Subject, m float64) float64 { return m * float64(s.Columns) },
		Stored: func(s Subject, _ float64) float64 { return float64(s.Columns * s.DType.Bits()) },
		Reference: func(t Task, in, stored []float64) (want, bound []float64) {
			for i, v := range in {
				want = append(want, v*stored[i%t.Columns])
				bound = append(bound, 1e-6*math.Abs(want[i]))
			}
			return want, bound
		},
		Cases: func(dt DType) []Task {
			return []Task{{M: 4, Subject: Subject{DType: dt, Dims: Dims{Columns: 9}}}}
		},
	})
	defer undefine()
	for lie, want := range map[string]string{
		"": "", "stale A": "the replay computed with the input" + saysRecorded,
		"stale B": "the replay computed with factors of the recording: packed, cached",
		"stale":   "the replay computed with the input and factors" + saysRecorded, "unwritten": replayUnset,
	} {
		s, errs := o.Definition().Gate(t.Context(), &hostDevice{}, []Kernel{&recording{Kernel: hostScaling{}, lie: lie}}, FP32, 1)
		err := errs[0]
		if want == "" && (err != nil || s[0].Passed != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v, %v", lie, s[0], err)
		}
	}
}
