package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/report/golden"
	"github.com/gemmaudit/gemmaudit/rules/advice"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func adviceOf(t *testing.T) *advice.Advice {
	t.Helper()
	part := advice.Part{Names: []string{"o_proj"}, Source: advice.Swept, Series: fixtureKey, Count: 32}
	var measured advice.Measured
	for m := 64; m <= 2048; m += 64 {
		seconds := 1e-5 * math.Max(20, float64((m+127)/128*8))
		if m == 960 {
			seconds *= 1.2
		}
		part.Times = append(part.Times, advice.Time{M: m, Seconds: seconds, SE: 0.001, DF: 20})
		if m%256 == 0 || m == 64 {
			measured = append(measured, advice.Time{M: m, Seconds: 32*seconds + 1e-3 + 1e-6*float64(m), SE: 0.001, DF: 20})
		}
	}
	a, err := advice.Advise(advice.Subject{Model: "small|7b", Device: "cuda:0", Card: "a card", Kernel: "lib", DType: "bf16",
		ClockMHz: 1800}, []advice.Part{part}, nil, measured,
		advice.Options{Sizes: 6, MinGain: 0.02, FDR: 0.05, Latency: 0.03, Engines: []string{"vllm", "llama.cpp"}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWriteAdvice(t *testing.T) {
	a := adviceOf(t)
	for _, c := range []struct {
		format Format
		name   string
	}{{Table, "advice-table"}, {Markdown, "advice-markdown"}} {
		var b bytes.Buffer
		if err := WriteAdvice(&b, c.format, a); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, c.name, b.String())
	}
	var b bytes.Buffer
	if err := WriteAdvice(&b, CSV, a); err != nil || strings.Count(b.String(), "\n") != len(a.Passes)+1 {
		t.Errorf("as CSV: %v\n%s", err, b.String())
	}
	if err := WriteAdvice(&b, Bench, a); err == nil {
		t.Error("an advice is printed as a benchmark")
	}

	// An unknown saving must not leave a gap in a sentence.
	b.Reset()
	a.Skipping.Saved = stats.Interval{}
	if err := WriteAdvice(&b, Table, a); err != nil || a.Skipping.Usual == 0 || strings.Contains(b.String(), "saves  ") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestAdviceFigures(t *testing.T) {
	a := adviceOf(t)
	if len(a.Skips) == 0 {
		t.Fatal("the advice skips no size")
	}
	figures := AdviceFigures(a)
	if len(figures) != 2 {
		t.Fatalf("%d figures", len(figures))
	}
	for i, want := range [][]string{{"sizes to capture", "never worth running", "small|7b — time of a pass over M", "time of a pass (ms)"},
		{"advised chunk, m", "usual chunks", "passes of 30.00 ms", "tokens a second"}} {
		var svg bytes.Buffer
		if err := figures[i].Write(&svg, SVG); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(svg.String(), w) {
				t.Errorf("%s has no %q", figures[i].Name, w)
			}
		}
	}
	without := *a
	without.Skips, without.Sizes.Captured = nil, nil
	var all, none bytes.Buffer
	if err := figures[0].Write(&all, SVG); err != nil {
		t.Fatal(err)
	}
	if err := AdviceFigures(&without)[0].Write(&none, SVG); err != nil {
		t.Fatal(err)
	}
	marks := func(b bytes.Buffer) int { return strings.Count(b.String(), "<path") }
	if got, want := marks(all)-marks(none), len(a.Sizes.Captured)+len(a.Skips); got < want {
		t.Errorf("%d marks more than without advice, expected at least %d", got, want)
	}
	none.Reset()
	without.Chunk = advice.Chunk{Best: []advice.ChunkSize{},
		Usual: []advice.UsualChunk{{ChunkSize: advice.ChunkSize{M: 8192, Seconds: stats.Interval{}}}}}
	if err := AdviceFigures(&without)[1].Write(&none, SVG); err != nil || strings.Contains(none.String(), "advised chunk, m") {
		t.Errorf("without a chunk: %v", err)
	}
}
