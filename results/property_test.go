package results

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// content is a run in a form that can be compared: cases by identity instead
// of by ID.
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

func contentOf(t fatal, r *Run) content {
	cases, err := r.Cases()
	check(t, err)
	byID := map[int64]Case{}
	for _, c := range cases {
		byID[c.ID] = c
	}
	out := content{Meta: r.Meta()}
	origins, err := r.Origins()
	check(t, err)
	index := indexOrigins(r.schema, origins)
	check(t, r.eachSample("", func(s Sample, origin int64) error {
		c := byID[s.CaseID]
		id, ok := index.of(c.Device, origin)
		if !ok {
			return fmt.Errorf("%v has no origin", s)
		}
		from := origins[id-1]
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
	out.State, err = r.allState()
	check(t, err)
	return out
}

// fatal is a test or a property under test.
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
	s.Dims = kernels.Dims{N: rapid.IntRange(1, 3).Draw(t, "n"), K: rapid.IntRange(1, 1<<20).Draw(t, "k"), Products: rapid.IntRange(0, 8).Draw(t, "products")}
	s.Layout = rapid.SampledFrom([]kernels.Layout{kernels.RowMajor, kernels.Transposed}).Draw(t, "layout")
	s.Weights = rapid.SampledFrom([]kernels.WeightFormat{
		{}, {}, {Type: "int8", Bits: 8}, {Type: "int4", Bits: 4, GroupK: 128, GroupN: 1, Scale: kernels.FP16, ZeroPoint: "int4", ZeroPointBits: 4},
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
			Tile:  [3]int{rapid.IntRange(0, 256).Draw(t, "tile m"), rapid.IntRange(0, 256).Draw(t, "tile n"), rapid.IntRange(0, 64).Draw(t, "tile k")},
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
		EnergyMJ:    figure.Draw(t, "energy"), Utils: figure.Draw(t, "utils"),
	}
}

// drawRun fills a new run with cases, samples and failures.
func drawRun(t *rapid.T, path string) *Run {
	r, err := Create(path, testMeta())
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

func scratch(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "results-property-*")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// few lowers the number of drawn runs for a test in which each costs several
// files, unless the command line asks for a number.
func few(t *testing.T) {
	const name, usual, fewer = "rapid.checks", "100", "30"
	if f := flag.Lookup(name); f != nil && f.Value.String() == usual {
		must(t, flag.Set(name, fewer))
		t.Cleanup(func() { flag.Set(name, usual) })
	}
}

func TestPropertyReload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawRun(t, filepath.Join(scratch(t), "run.db"))
		before := contentOf(t, w)
		live, err := Open(w.Path()) // while it is being written
		check(t, err)
		if d := gocmp.Diff(before, contentOf(t, live)); d != "" {
			t.Fatal("read beside the writer (-written +read):\n" + d)
		}
		check(t, live.Close())
		check(t, w.Close())
		r, err := Open(w.Path())
		check(t, err)
		defer r.Close()
		if d := gocmp.Diff(before, contentOf(t, r)); d != "" {
			t.Fatal("(-written +read):\n" + d)
		}
	})
}

func TestPropertyExportImport(t *testing.T) {
	few(t)
	rapid.Check(t, func(t *rapid.T) {
		dir := scratch(t)
		w := drawRun(t, filepath.Join(dir, "run.db"))
		defer w.Close()
		before := contentOf(t, w)

		var text, lines, columns bytes.Buffer
		check(t, Export(w, &text, FormatCSV))
		check(t, Export(w, &lines, FormatJSONL))
		check(t, Export(w, &columns, FormatParquet))
		csvPath := filepath.Join(dir, "samples.csv")
		check(t, os.WriteFile(csvPath, text.Bytes(), 0o644))
		r, err := Import(context.Background(), []string{csvPath}, filepath.Join(dir, "again.db"), ImportOptions{})
		check(t, err)
		defer r.Close()
		after := contentOf(t, r)
		if d := gocmp.Diff(before.Samples, after.Samples); d != "" {
			t.Fatal("(-exported +imported):\n" + d)
		}
		if before.Meta.Distribution != after.Meta.Distribution || before.Meta.Seed != after.Meta.Seed {
			t.Fatal("distribution or seed changed on the way: ", after.Meta)
		}
		if d := gocmp.Diff(before.Meta.Labels, after.Meta.Labels); d != "" || after.Meta.Fingerprint.Hostname != before.Meta.Fingerprint.Hostname {
			t.Fatal("labels (-exported +imported), host "+after.Meta.Fingerprint.Hostname+":\n", d)
		}
		origins, err := r.Origins()
		check(t, err)
		for _, o := range origins {
			if d := gocmp.Diff(before.Meta.Ceilings[o.Device], after.Meta.Ceilings[o.Device]); d != "" {
				t.Fatal("ceilings (-exported +imported):\n" + d)
			}
		}
		if len(r.Warnings()) > 0 {
			t.Fatal("our own columns are warned of: ", r.Warnings())
		}

		var fromJSON []Exported
		d := json.NewDecoder(&lines)
		for d.More() {
			var e Exported
			check(t, d.Decode(&e))
			fromJSON = append(fromJSON, e)
		}
		fromParquet, err := parquet.Read[Exported](bytes.NewReader(columns.Bytes()), int64(columns.Len()))
		check(t, err)
		if d := gocmp.Diff(fromJSON, fromParquet); d != "" {
			t.Fatal("(-jsonl +parquet):\n" + d)
		}
		file, err := parquet.OpenFile(bytes.NewReader(columns.Bytes()), int64(columns.Len()))
		check(t, err)
		told, id, err := ExportedMeta(file.Lookup)
		check(t, err)
		want := before.Meta
		want.Command, want.Plan = "", nil
		if d := gocmp.Diff(want, told); d != "" || id != w.ID() {
			t.Fatal("metadata of Parquet (-written +read), run "+id+":\n", d)
		}
		for i, s := range before.Samples {
			if fromJSON[i].US != s.Sample.US || fromJSON[i].Seq != s.Sample.Seq || fromJSON[i].M != s.Case.M {
				t.Fatal("line ", i, ": ", fromJSON[i], " is not ", s)
			}
			if at := fromJSON[i].Started; int64(at) != s.Sample.StartedUnixMicro {
				t.Fatal("line ", i, ": started at ", at, " for ", s.Sample.StartedUnixMicro)
			}
			if p := fromJSON[i].PowerW; (p == nil) != (s.Sample.PowerW == 0) || p != nil && *p != s.Sample.PowerW {
				t.Fatal("line ", i, ": power ", p, " for ", s.Sample.PowerW)
			}
		}
	})
}

func TestPropertyMergeOfPartition(t *testing.T) {
	few(t)
	rapid.Check(t, func(t *rapid.T) {
		dir := scratch(t)
		whole := drawRun(t, filepath.Join(dir, "whole.db"))
		defer whole.Close()
		cases, err := whole.Cases()
		check(t, err)
		samples, err := whole.Samples("")
		check(t, err)
		failures, err := whole.Failures()
		check(t, err)
		n := rapid.IntRange(1, 4).Draw(t, "shards")
		var paths []string
		var shards []*Run
		var ids []map[int64]int64
		for i := range n {
			meta := testMeta()
			meta.Plan = json.RawMessage(fmt.Sprintf(`{"shard": "%d/%d", "batches": "4:64:4"}`, i+1, n))
			r, err := Create(filepath.Join(dir, fmt.Sprintf("shard%d.db", i)), meta)
			check(t, err)
			defer r.Close()
			// Every shard knows the cases in an order of its own.
			own, err := r.AddCases(rapid.Permutation(cases).Draw(t, "cases"))
			check(t, err)
			byKey := map[CaseKey]int64{}
			for _, c := range own {
				byKey[c.Key()] = c.ID
			}
			id := map[int64]int64{}
			for _, c := range cases {
				id[c.ID] = byKey[c.Key()]
			}
			check(t, r.SetState("status", "complete"))
			shards, ids, paths = append(shards, r), append(ids, id), append(paths, r.Path())
		}
		for _, s := range samples {
			// A sample lies in one shard, and now and then in a second one too.
			for range rapid.IntRange(1, 2).Draw(t, "copies") {
				to := rapid.IntRange(0, n-1).Draw(t, "shard")
				own := s
				own.CaseID = ids[to][s.CaseID]
				if err := shards[to].Append(own); err != nil && !strings.Contains(err.Error(), ErrDuplicate.Error()) {
					t.Fatal(err)
				}
			}
		}
		for _, f := range failures {
			to := rapid.IntRange(0, n-1).Draw(t, "shard")
			f.CaseID = ids[to][f.CaseID]
			check(t, shards[to].Fail(f))
		}
		for _, r := range shards {
			check(t, r.Close())
		}
		merged, err := Merge(context.Background(), filepath.Join(dir, "merged.db"), paths, MergeOptions{})
		check(t, err)
		defer merged.Close()
		// Shards are runs of their own.
		ignore := gocmp.Options{cmpopts.IgnoreFields(Meta{}, "Plan"), cmpopts.IgnoreFields(Origin{}, "Run")}
		if d := gocmp.Diff(contentOf(t, whole), contentOf(t, merged), ignore); d != "" {
			t.Fatal("(-whole +merged):\n" + d)
		}
	})
}
