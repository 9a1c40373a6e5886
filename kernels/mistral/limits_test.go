package mistral_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// Uses a window that is not the model's.
func TestRingSeveralTimesOver(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		const window, long, steps = 11, 900, 20
		f := openFixture(t, "mistral-window")
		m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: kernels.FP32})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		tokens := mistral.RandomTokens(long+steps, m.Config().Vocab, 3)
		reference, err := mistral.Reference(t.Context(), f.Checkpoint, tokens, window)
		if err != nil {
			t.Fatal(err)
		}
		for _, batch := range []int{5, 64, 200} {
			s := session(t, m, mistral.SessionOptions{Positions: len(tokens), Window: window, Batch: batch})
			logits, err := s.Prefill(t.Context(), tokens[:long])
			for i := long; ; i++ {
				if err != nil {
					t.Fatal(err)
				}
				if d := distance(logits, reference.Logits[i-1]); !(d <= bounds[kernels.FP32]) {
					t.Fatalf("batches of %d, token %d: off by %.2g of the logits' range", batch, i-1, d)
				}
				if i == len(tokens) {
					break
				}
				logits, err = s.Step(t.Context(), tokens[i])
			}
		}
	})
}

func TestGenerateInterrupted(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openFixture(t, "mistral")
		m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: kernels.FP32})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := session(t, m, mistral.SessionOptions{Positions: len(f.Prompt) + len(f.Greedy)})
		seen := 0
		out, err := s.Generate(ctx, mistral.Generation{Prompt: f.Prompt, Tokens: len(f.Greedy), Yield: func(int32) bool {
			if seen++; seen == 3 {
				cancel()
			}
			return true
		}})
		if err == nil || out.Reason != mistral.StopError || len(out.Tokens) < 3 || !slices.Equal(out.Tokens, f.Greedy[:len(out.Tokens)]) {
			t.Errorf("%d tokens, reason %q, error %v", len(out.Tokens), out.Reason, err)
		}
	})
}

// crowded is a CPU with only free bytes of memory available.
type crowded struct {
	*cpu.Device
	free int64
}

func (d crowded) FreeMemory() (int64, bool) { return d.free, true }

func (d crowded) Alloc(bytes int64) (kernels.Buffer, error) {
	return nil, fmt.Errorf("allocate %d bytes: nothing must be", bytes)
}

func TestAModelLargerThanWhatIsFree(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f := openFixture(t, "mistral")
	for _, session := range []mistral.SessionOptions{{}, {Positions: 64}} {
		needs := f.Checkpoint.Config().Parameters() * 4
		if session.Positions > 0 {
			needs += mistral.SessionBytes(f.Checkpoint.Config(), kernels.FP32, session)
		}
		o := mistral.Options{DType: kernels.FP32, Session: session}
		_, err := mistral.Load(t.Context(), crowded{d, needs - 1}, f.Checkpoint, o)
		var large *mistral.TooLarge
		if !errors.As(err, &large) || large.Needs != needs || large.Has != needs-1 ||
			!strings.Contains(err.Error(), fmt.Sprintf("needs %d bytes", needs)) ||
			!strings.Contains(err.Error(), fmt.Sprintf("cpu has %d ", needs-1)) {
			t.Errorf("%d bytes are free, %d needed: %v", needs-1, needs, err)
		}
		if _, err = mistral.Load(t.Context(), crowded{d, needs}, f.Checkpoint, o); err == nil || errors.As(err, &large) {
			t.Errorf("%d bytes are free and needed: %v", needs, err)
		}
	}
}

// endless is a CPU on which a pass never ends.
type endless struct{ *cpu.Device }

func (d endless) Execute(ctx context.Context, launches []kernels.Launch, _ int) (kernels.Span, error) {
	return d.Device.Execute(ctx, launches, 1<<40)
}

// An interrupt must end a pass early: a product of a long prompt takes seconds on a CPU.
func TestAPassIsInterrupted(t *testing.T) {
	d, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f := openFixture(t, "mistral")
	m, err := mistral.Load(t.Context(), endless{d}, f.Checkpoint, mistral.Options{DType: kernels.FP32})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := session(t, m, mistral.SessionOptions{Positions: 64})
	for name, pass := range map[string]func(context.Context) error{
		"prompt": func(ctx context.Context) error { _, err := s.Prefill(ctx, f.Prompt); return err },
		"all":    func(ctx context.Context) error { return s.All(ctx, f.Prompt, nil) },
		"token":  func(ctx context.Context) error { _, err := s.Step(ctx, 1); return err },
		"timings": func(ctx context.Context) error {
			timings, err := s.PromptTimings(8)
			if err == nil {
				_, err = timings[0].Run(ctx)
			}
			return err
		},
		"timing": func(ctx context.Context) error { _, err := s.TimePrompt(ctx, 8); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := pass(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestGenerateRefusesNaN(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "llama-2"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// All bits set are NaN in a 16-bit or 32-bit element.
	copy(data[8+binary.LittleEndian.Uint64(data):], "\xff\xff\xff\xff")
	copy(data[len(data)-4:], "\xff\xff\xff\xff")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		m, err := mistral.Load(t.Context(), d, c, mistral.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s := session(t, m, mistral.SessionOptions{Positions: 4})
		if out, err := s.Generate(t.Context(),
			mistral.Generation{Prompt: []int32{0, 1}, Tokens: 2}); !errors.Is(err, mistral.ErrNotFinite) {
			t.Errorf("generated %v, error %v", out.Tokens, err)
		}
	})
}

func TestSessionBytesOfAnything(t *testing.T) {
	c := checkpoint.Config{Hidden: 1 << 20, Inner: 1 << 20, Layers: 1 << 12, Vocab: 1 << 24, Context: math.MaxInt32,
		Heads: kernels.Heads{Query: 1 << 10, KV: 1 << 10, Dim: 1 << 10}}
	if n := mistral.SessionBytes(c, kernels.FP32, mistral.SessionOptions{Positions: math.MaxInt32, Batch: math.MaxInt32}); n < 1<<60 {
		t.Errorf("%d bytes", n)
	}
}

func TestTokenBytes(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openFixture(t, "mistral")
		m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: kernels.FP16})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		c := m.Config()
		key := int64(2 * 2 * c.Layers * c.Heads.KV * c.Heads.Dim)
		wide, narrow := session(t, m, mistral.SessionOptions{Positions: 100}),
			session(t, m, mistral.SessionOptions{Positions: 100, Window: 7})
		if got := wide.TokenBytes(50) - narrow.TokenBytes(50); got != 43*key {
			t.Errorf("43 keys more are %d bytes, expected %d", got, 43*key)
		}
		// All weights but the norms and the embedding, which contributes one row.
		norms := int64(2*c.Layers+1) * int64(c.Hidden)
		if got, want := wide.TokenBytes(50)-50*key, 2*(c.Parameters()-norms-int64(c.Vocab-1)*int64(c.Hidden)); got != want {
			t.Errorf("weights are %d bytes, expected %d", got, want)
		}
	})
}

func TestRelease(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openFixture(t, "mistral")
		m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: kernels.FP32, KeepRaw: true})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var first []float32
		for range 2 {
			s := session(t, m, mistral.SessionOptions{Positions: len(f.Prompt)})
			logits, err := s.Prefill(t.Context(), f.Prompt)
			if err != nil {
				t.Fatal(err)
			}
			if first != nil && !slices.Equal(logits, first) {
				t.Error("other logits after weights were given back")
			}
			first = logits
			s.Close()
			if err := m.Release(m.Kernel()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
