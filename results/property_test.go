package results

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// content is a run in comparable form: cases by identity instead of by ID.
type content struct {
	Meta     Meta
	Samples  []flatSample
	Failures []flatFailure
	State    map[string]string
}

type flatSample struct {
	Case   Case
	Sample Sample
	From   Origin
}

type flatFailure struct {
	Case    Case
	Failure Failure
}

func ContentOf(t fatal, r *Run) content {
	cases, err := r.Cases()
	check(t, err)
	byID := map[int64]Case{}
	for _, c := range cases {
		byID[c.ID] = c
	}
	out := content{Meta: r.Meta()}
	origins, err := r.Origins()
	check(t, err)
	check(t, r.EachWithOrigin(func(s Sample, origin int64) error {
		c, from := byID[s.CaseID], origins[origin-1]
		c.ID, s.CaseID, from.ID = 0, 0, 0
		out.Samples = append(out.Samples, flatSample{c, s, from})
		return nil
	}))
	failures, err := r.Failures()
	check(t, err)
	for _, f := range failures {
		c := byID[f.CaseID]
		c.ID, f.CaseID = 0, 0
		out.Failures = append(out.Failures, flatFailure{c, f})
	}
	slices.SortFunc(out.Failures, func(a, b flatFailure) int {
		return cmp.Or(strings.Compare(fmt.Sprint(a.Case), fmt.Sprint(b.Case)),
			strings.Compare(string(a.Failure.Phase), string(b.Failure.Phase)), cmp.Compare(a.Failure.Round, b.Failure.Round))
	})
	out.State, err = r.AllState()
	check(t, err)
	return out
}

type fatal interface {
	Helper()
	Fatal(args ...any)
}

func check(t fatal, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var anySubject = rapid.Custom(func(t *rapid.T) kernels.Subject {
	s := kernels.Subject{
		Operation: rapid.SampledFrom(kernels.Operations()).Draw(t, "operation"),
		DType:     rapid.SampledFrom(kernels.DTypes()).Draw(t, "dtype"),
		Output:    rapid.SampledFrom([]kernels.DType{"", "", kernels.INT32}).Draw(t, "output"),
	}
	if s.Output == s.DType.Output() {
		s.Output = "" // it follows
	}
	if s.Operation == kernels.Softmax || s.Operation == kernels.LogSoftmax {
		s.Columns = rapid.IntRange(1, 1<<18).Draw(t, "columns")
		s.Queries = rapid.IntRange(0, s.Columns).Draw(t, "queries")
		return s
	}
	if s.Operation == kernels.GroupedGEMM {
		s.Dims = kernels.Dims{N: rapid.IntRange(1, 3).Draw(t, "n"), K: rapid.IntRange(1, 1<<20).Draw(t, "k"),
			Groups: rapid.IntRange(1, kernels.MaxGroups).Draw(t, "groups")}
		switch rapid.IntRange(0, 2).Draw(t, "routing") {
		case 1:
			s.TopK, s.Draw = rapid.IntRange(1, min(8, s.Groups)).Draw(t, "top-k"), rapid.IntRange(1, 9).Draw(t, "seed")
			s.Skew = rapid.IntRange(0, kernels.MaxSkew).Draw(t, "skew")
		case 2:
			s.Routing = rapid.IntRange(1, 1<<31-1).Draw(t, "hash")
		}
		s.Layout = kernels.Transposed
		return s
	}
	if s.Operation == kernels.FusedGEMM {
		s.Dims = kernels.Dims{N: rapid.IntRange(1, 3).Draw(t, "n"), K: rapid.IntRange(1, 1<<20).Draw(t, "k"),
			Epilogue: rapid.SampledFrom(kernels.Epilogues()).Draw(t, "epilogue")}
		if s.Epilogue.IsGated() {
			s.N *= 2
		}
		s.Layout = kernels.Transposed
		return s
	}
	if s.Operation != kernels.GEMM {
		kv := rapid.IntRange(1, 8).Draw(t, "heads of keys and values")
		s.Dims = kernels.Dims{
			KVHeads: kv, QueryHeads: kv * rapid.IntRange(1, 8).Draw(t, "query heads of each"),
			HeadDim: 2 * rapid.IntRange(1, 128).Draw(t, "pairs of a head"), Window: rapid.IntRange(0, 4096).Draw(t, "window"),
		}
		if s.Operation == kernels.DecoderPrompt || s.Operation == kernels.DecoderToken {
			s.Layers, s.Hidden = rapid.IntRange(1, 128).Draw(t, "layers"), rapid.IntRange(1, 1<<14).Draw(t, "hidden")
			s.Inner, s.Vocab = rapid.IntRange(1, 1<<15).Draw(t, "inner"), rapid.IntRange(1, 1<<18).Draw(t, "vocab")
		}
		return s
	}
	s.Dims = kernels.Dims{N: rapid.IntRange(1, 3).Draw(t, "n"), K: rapid.IntRange(1, 1<<20).Draw(t, "k"),
		Products: rapid.IntRange(0, 8).Draw(t, "products")}
	s.Layout = rapid.SampledFrom([]kernels.Layout{kernels.RowMajor, kernels.Transposed}).Draw(t, "layout")
	s.Weights = rapid.SampledFrom([]kernels.WeightFormat{
		{}, {}, {Type: "int8", Bits: 8},
		{Type: "int4", Bits: 4, GroupK: 128, GroupN: 1, Scale: kernels.FP16, ZeroPoint: "int4", ZeroPointBits: 4},
		{Type: "fp8", Bits: 8, GroupK: 128, GroupN: 128, Scale: kernels.FP32},
		{Type: "nvfp4", Bits: 4, GroupK: 16, GroupN: 1, Scale: kernels.FP8},
	}).Draw(t, "weights")
	if s.Weights.Type == string(s.DType) {
		s.Weights = kernels.WeightFormat{}
	}
	return s
})

var anyCase = rapid.Custom(func(t *rapid.T) Case {
	c := Case{SeriesKey: SeriesKey{
		Device:     rapid.SampledFrom([]string{"cpu", "cuda:0", "a card, \"quoted\""}).Draw(t, "device"),
		Kernel:     rapid.SampledFrom([]string{"tiled", "onednn"}).Draw(t, "kernel"),
		Subject:    anySubject.Draw(t, "subject"),
		Regime:     rapid.SampledFrom([]Regime{Engine, Cold, Hot}).Draw(t, "regime"),
		Threads:    rapid.IntRange(0, 2).Draw(t, "threads"),
		PackInside: rapid.Bool().Draw(t, "pack"),
	}}
	c.M = rapid.IntRange(1, 1<<16).Draw(t, "m")
	execution := rapid.IntRange(0, 3).Draw(t, "execution")
	if execution == 0 && !c.Divisible() || execution == 1 && !c.Paddable() {
		execution = 3
	}
	switch execution {
	case 0:
		if c.M > 1 {
			first := rapid.IntRange(1, c.M-1).Draw(t, "part")
			c.Parts = []int{first, c.M - first}
		}
	case 1:
		c.PadTo = c.M + rapid.IntRange(1, 64).Draw(t, "pad")
		c.Copied = rapid.Bool().Draw(t, "copied")
	}
	c.Label = rapid.SampledFrom([]string{"", "kernel<a, b>", "ünïcode"}).Draw(t, "label")
	if rapid.Bool().Draw(t, "launch known") {
		c.Launch = Launch{
			Tile: [3]int{rapid.IntRange(0, 256).Draw(t, "tile m"), rapid.IntRange(0, 256).Draw(t, "tile n"),
				rapid.IntRange(0, 64).Draw(t, "tile k")},
			Waves: rapid.OneOf(rapid.Just(0.0), anyPositive).Draw(t, "waves"), Split: rapid.IntRange(0, 8).Draw(t, "split"),
			Orientation: rapid.SampledFrom([]string{"", "transposed"}).Draw(t, "orientation"),
		}
	}
	return c
})

var anyPositive = rapid.Float64Range(1e-3, 1e9)

func drawSample(t *rapid.T, c Case, phase Phase, round int, seq int64) Sample {
	figure := rapid.OneOf(rapid.Just(0.0), anyPositive)
	return Sample{
		CaseID: c.ID, Phase: phase, Round: round, Seq: seq,
		StartedUnixMicro: 1_700_000_000_000_000 + seq, Launches: rapid.IntRange(1, 1000).Draw(t, "launches"),
		US: anyPositive.Draw(t, "us"), ClockMHz: figure.Draw(t, "clock"), PowerW: figure.Draw(t, "power"), TempC: figure.Draw(t, "temp"),
		Throttle:    kernels.Throttle(rapid.SampledFrom([]string{"", "power cap"}).Draw(t, "throttle")),
		Disturbance: rapid.SampledFrom([]string{"", "stolen 4 ms, twice"}).Draw(t, "disturbance"),
		Allocation:  rapid.IntRange(0, 3).Draw(t, "allocation"),
		EnergyMJ:    figure.Draw(t, "energy"), HostUS: figure.Draw(t, "host"), Utils: figure.Draw(t, "utils"),
	}
}

func DrawRun(t *rapid.T, path string) *Run {
	r, err := Create(path, SomeMeta())
	check(t, err)
	cases, err := r.AddCases(rapid.SliceOfNDistinct(anyCase, 1, 12, Case.Key).Draw(t, "cases"))
	check(t, err)
	seq := int64(0)
	for _, phase := range []Phase{PhaseSweep, PhaseConfirm} {
		for round := range rapid.IntRange(1, 3).Draw(t, "rounds") {
			for _, c := range rapid.Permutation(cases).Draw(t, "order") {
				switch rapid.IntRange(0, 5).Draw(t, "outcome") {
				case 0:
					check(t, r.Fail(Failure{CaseID: c.ID, Phase: phase, Round: round, Reason: "no memory"}))
				case 1: // not reached
				default:
					check(t, r.Append(drawSample(t, c, phase, round, seq)))
					seq++
				}
			}
		}
	}
	if seq == 0 {
		check(t, r.Append(drawSample(t, cases[0], PhaseNoise, 0, seq)))
	}
	check(t, r.SetState("status", "complete"))
	return r
}

func Scratch(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "results-property-*")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Few reduces the number of drawn runs in slow tests, unless set on the command line.
func Few(t *testing.T) {
	const name, usual, fewer = "rapid.checks", "100", "30"
	if f := flag.Lookup(name); f != nil && f.Value.String() == usual {
		must(t, flag.Set(name, fewer))
		t.Cleanup(func() { flag.Set(name, usual) })
	}
}

func TestPropertyReload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := DrawRun(t, filepath.Join(Scratch(t), "run.db"))
		before := ContentOf(t, w)
		live, err := Open(w.Path()) // while it is being written
		check(t, err)
		if d := gocmp.Diff(before, ContentOf(t, live)); d != "" {
			t.Fatal("read beside the writer (-written +read):\n" + d)
		}
		check(t, live.Close())
		check(t, w.Close())
		r, err := Open(w.Path())
		check(t, err)
		defer r.Close()
		if d := gocmp.Diff(before, ContentOf(t, r)); d != "" {
			t.Fatal("(-written +read):\n" + d)
		}
	})
}
