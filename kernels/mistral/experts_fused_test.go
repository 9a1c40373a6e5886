package mistral

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// choosingBackend is a GPU, with all that it does for experts.
type choosingBackend interface {
	Backend
	expertFuser
	rowMover
	grapher
}

// faultyBackend changes the experts of every token.
type faultyBackend struct {
	choosingBackend
	change func(*kernels.FusedExperts)
}

func (d faultyBackend) FuseExperts(o kernels.FusedExperts) ([]kernels.Launch, error) {
	o.Units, o.Outputs = slices.Clone(o.Units), slices.Clone(o.Outputs)
	d.change(&o)
	return d.choosingBackend.FuseExperts(o)
}

// Logits of tokens whose experts the device chooses must show its faults, in plain weights and in integers.
func TestLogitsShowFaultsOfChoosingDevices(t *testing.T) {
	gpus, _ := cuda.Provider{}.Open()
	for i, d := range gpus {
		defer d.Close()
		own, ok := d.(choosingBackend)
		if i > 0 || !ok {
			continue
		}
		for _, name := range []string{"mixtral-8x2", "mixtral-8x2-int4", "mixtral-6x3"} {
			for fault, change := range map[string]func(*kernels.FusedExperts){
				"none":                   func(*kernels.FusedExperts) {},
				"one expert fewer":       func(o *kernels.FusedExperts) { o.TopK-- },
				"units of the next one":  func(o *kernels.FusedExperts) { o.Units = append(o.Units[1:], o.Units[0]) },
				"outputs of the next":    func(o *kernels.FusedExperts) { o.Outputs = append(o.Outputs[1:], o.Outputs[0]) },
				"all of the next expert": func(o *kernels.FusedExperts) { slices.Reverse(o.Units); slices.Reverse(o.Outputs) },
				"a norm's other epsilon": func(o *kernels.FusedExperts) { o.Epsilon = 3 },
			} {
				off, fused := worstStep(t, faultyBackend{own, change}, name)
				if !fused {
					t.Skipf("%s does not choose experts", d.Spec().ID)
				}
				if bound := LogitBound(kernels.FP16); (off <= bound) != (fault == "none") {
					t.Errorf("%s, %s: logits are off by %.2g of their range, the bound is %g", name, fault, off, bound)
				}
			}
		}
	}
	if len(gpus) == 0 {
		t.Skip("no GPU")
	}
}

// worstStep decodes a fixture's prompt in fp16 and returns the largest error of its logits, relative to the range of a token's.
func worstStep(t *testing.T, d kernels.Device, name string) (off float64, fused bool) {
	t.Helper()
	var stored struct {
		Prompt []int32
		Logits []byte
	}
	data, err := os.ReadFile("testdata/" + name + "/reference.json")
	if err == nil {
		err = json.Unmarshal(data, &stored)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := Load(t.Context(), d, c, Options{DType: kernels.FP16})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSession(SessionOptions{Positions: len(stored.Prompt)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}()
	for i, token := range stored.Prompt {
		got, err := s.Step(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float64, len(got))
		for j := range want {
			want[j] = math.Float64frombits(binary.LittleEndian.Uint64(stored.Logits[8*(i*len(got)+j):]))
		}
		span := slices.Max(want) - slices.Min(want)
		for j, w := range want {
			if d := math.Abs(float64(got[j])-w) / span; !(d <= off) {
				off = d
			}
		}
	}
	return off, s.Fused()
}
