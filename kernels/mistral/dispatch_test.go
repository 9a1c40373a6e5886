package mistral_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/results/table"
)

func remedies(f *fixture, kernel, other string, d kernels.DType) *table.Table {
	c := f.Config()
	whole := func(a table.Action) []table.Interval { return []table.Interval{{From: 20, To: 57, Action: a}} }
	t := &table.Table{Schema: table.Schema, Created: "2026-01-02T15:04:05Z", Series: []table.Series{
		{Product: table.Product{N: c.Heads.Width(), K: c.Hidden}, Intervals: whole(table.Action{Kind: table.Split, First: []int{5, 3}})},
		{Product: table.Product{N: c.Hidden, K: c.Heads.Query * c.Heads.Dim},
			Intervals: whole(table.Action{Kind: table.Pad, PadTo: 57, Pad: table.InPlace})},
		{Product: table.Product{N: 2 * c.Inner, K: c.Hidden}, Intervals: whole(table.Action{Kind: table.Kernel, Kernel: other})},
		{Product: table.Product{N: c.Hidden, K: c.Inner}, Intervals: whole(table.Action{Kind: table.Split, First: []int{1}})},
	}}
	for i := range t.Series {
		t.Series[i].Kernel, t.Series[i].DType, t.Series[i].Layout = kernel, string(d), table.NK
	}
	t.Sort()
	return t
}

func TestTableChangesNoLogits(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		for _, name := range fixtures {
			f := openFixture(t, name)
			m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: kernels.FP16, KeepRaw: true})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			with := remedies(f, "auto", "naive", kernels.FP16)
			if err := with.Validate(); err != nil {
				t.Fatal(err)
			}
			if applied, products := m.Applied(with, len(f.Prompt)); applied != products || products != 4*f.Config().Layers {
				t.Errorf("%s: the table applies to %d of %d products", name, applied, products)
			}
			s := session(t, m, mistral.SessionOptions{Positions: len(f.Prompt), Table: with})
			logits, err := s.Prefill(t.Context(), f.Prompt)
			if err != nil {
				t.Fatal(err)
			}
			if d := distance(logits, f.logits(t, kernels.FP16, len(f.Positions)-1)); !(d <= bounds[kernels.FP16]) {
				t.Errorf("%s: logits are off by %.2g of their range", name, d)
			}
		}
	})
}

// A table serves the attention's products of a model with experts, whose own products have rows that no table knows.
func TestTableLeavesExpertsAlone(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openMixture(t, "mixtral-8x2")
		m := loadMixture(t, d, f, mistral.Options{DType: kernels.FP16, KeepRaw: true})
		c := f.Config()
		whole := []table.Interval{{From: 1, To: 64, Action: table.Action{Kind: table.Split, First: []int{5, 3}}}}
		with := &table.Table{Schema: table.Schema, Created: "2026-01-02T15:04:05Z"}
		for _, p := range []table.Product{{N: c.Heads.Width(), K: c.Hidden}, {N: c.Hidden, K: c.Heads.Query * c.Heads.Dim},
			{N: 2 * c.Inner, K: c.Hidden}, {N: c.Hidden, K: c.Inner}, {N: c.Experts, K: c.Hidden}} {
			p.Kernel, p.DType, p.Layout = "auto", string(kernels.FP16), table.NK
			with.Series = append(with.Series, table.Series{Product: p, Intervals: whole})
		}
		with.Sort()
		if applied, products := m.Applied(with, len(f.prompt)); applied != 2*c.Layers || products != applied {
			t.Errorf("the table applies to %d of %d products", applied, products)
		}
		s := session(t, m, mistral.SessionOptions{Positions: len(f.prompt), Table: with})
		found, err := s.Compare(t.Context(), f.prompt, &mistral.Expected{Logits: f.want}, mistral.LogitBound(kernels.FP16))
		if err != nil || !found.Passed {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

func TestRefusals(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f := openFixture(t, "mistral-window")
	load := func(o mistral.Options) error {
		m, err := mistral.Load(t.Context(), d, f.Checkpoint, o)
		if err == nil {
			m.Close()
		}
		return err
	}
	var large *mistral.TooLarge
	if err := load(mistral.Options{Session: mistral.SessionOptions{Positions: 1 << 50}}); !errors.As(err, &large) {
		t.Errorf("a model beyond memory: %v", err)
	}
	for _, c := range []struct {
		o    mistral.Options
		want string
	}{
		{mistral.Options{DType: kernels.INT8}, `"int8"`},
		{mistral.Options{Kernel: "nonsense"}, `"nonsense"`},
	} {
		if err := load(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, expected an error with %s", c.o, err, c.want)
		}
	}
	m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := session(t, m, mistral.SessionOptions{Positions: 20})
	var overflow *mistral.Overflow
	for _, c := range []struct {
		tokens []int32
		want   string
	}{
		{nil, "no tokens"},
		{[]int32{1, -1}, "token 1 is -1"},
		{[]int32{int32(m.Config().Vocab)}, "the vocabulary has"},
		{make([]int32, 21), "21 tokens after 0"},
	} {
		if _, err := s.Prefill(t.Context(), c.tokens); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, expected %q", c.tokens, err, c.want)
		}
	}
	if _, err := s.Prefill(t.Context(), make([]int32, 20)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Step(t.Context(), 1); !errors.As(err, &overflow) {
		t.Errorf("a token too many: %v", err)
	}
}

func TestGenerationEnds(t *testing.T) {
	d, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f := openFixture(t, "llama-2")
	m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: kernels.FP32})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, n := range []int{1, 2, 9, 64} {
		s := session(t, m, mistral.SessionOptions{Positions: len(f.Prompt) + n})
		out, err := s.Generate(t.Context(), mistral.Generation{Prompt: f.Prompt, Tokens: n})
		if err != nil || !slices.Equal(out.Tokens, f.Greedy[:n]) || out.Reason != mistral.StopLength {
			t.Errorf("%d tokens: %v, %s, %v", n, out.Tokens, out.Reason, err)
		}
	}
	stop := f.Greedy[20]
	first := slices.Index(f.Greedy, stop)
	s := session(t, m, mistral.SessionOptions{Positions: len(f.Prompt) + 64})
	out, err := s.Generate(t.Context(), mistral.Generation{Prompt: f.Prompt, Tokens: 64, Stop: []int32{stop}})
	if err != nil || !slices.Equal(out.Tokens, f.Greedy[:first]) || out.Reason != mistral.StopToken {
		t.Errorf("stop token: %v, %s, %v", out.Tokens, out.Reason, err)
	}
	s.Reset()
	var seen []int32
	out, err = s.Generate(t.Context(), mistral.Generation{Prompt: f.Prompt, Tokens: 64, Yield: func(t int32) bool {
		seen = append(seen, t)
		return len(seen) < 11
	}})
	if err != nil || len(out.Tokens) != 11 || !slices.Equal(seen, f.Greedy[:11]) || out.Reason != mistral.StopCaller {
		t.Errorf("ended by the caller: %v, %s, %v", out.Tokens, out.Reason, err)
	}
	draw := func(seed uint64) []int32 {
		s.Reset()
		out, err := s.Generate(t.Context(),
			mistral.Generation{Prompt: f.Prompt, Tokens: 30, Sampling: mistral.Sampling{Temperature: 1, TopP: 0.95, Seed: seed}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Tokens
	}
	a, b, c := draw(1), draw(1), draw(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("seeds 1, 1, 2 draw %v, %v, %v", a, b, c)
	}
}
