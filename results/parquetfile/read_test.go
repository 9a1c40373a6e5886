package parquetfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
)

func exportedRunFile(t testing.TB) *results.Run {
	t.Helper()
	spec := func(id string) kernels.Spec {
		return kernels.Spec{ID: id, Kind: kernels.CUDA, Name: "Card X", UUID: "GPU-" + id, Versions: map[string]string{"driver": "580.1"},
			Settings: map[string]string{"power limit": "700 W"}}
	}
	meta := results.Meta{Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Gemmaudit: "1.0", Regime: results.Engine,
		Distribution: kernels.Normal, Labels: results.Labels{"rack": "7"},
		Fingerprint: results.Fingerprint{Hostname: "node1", Devices: []kernels.Spec{spec("cuda:0"), spec("cuda:1")}},
		Ceilings: map[string]kernels.Ceilings{"cuda:0": {ReadBandwidth: 4e12,
			Peaks: []kernels.Peak{{DType: kernels.BF16, FLOPS: 8e14, Origin: kernels.Measured}}}},
		ReferenceClock: map[string]float64{"cuda:0": 1700}}
	r, err := results.Create(filepath.Join(t.TempDir(), "run.db"), meta)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	product := func(device string, m int) results.Case {
		return results.Case{SeriesKey: results.SeriesKey{Device: device, Kernel: "cublas",
			Subject: kernels.Product(kernels.BF16, 4096, 14336), Regime: results.Engine}, M: m}
	}
	split, softmax, quantized := product("cuda:0", 128), product("cuda:0", 64), product("cuda:1", 16)
	split.Parts = []int{64, 64}
	softmax.Subject = kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP16, Dims: kernels.Dims{Columns: 1024}}
	quantized.Weights = kernels.WeightFormat{Type: "int4", Bits: 4, GroupK: 128, GroupN: 1, Scale: kernels.BF16}
	cases, err := r.AddCases([]results.Case{product("cuda:0", 256), product("cuda:0", 128), product("cuda:1", 128), split, softmax,
		quantized})
	if err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	for _, phase := range []results.Phase{results.PhaseSweep, results.PhaseSentinel, results.PhaseSustained, results.PhaseRemedy} {
		for round := range 3 {
			for i, c := range cases {
				if phase == results.PhaseRemedy != (i == 3) || phase != results.PhaseSweep && i > 1 && i != 3 {
					continue
				}
				s := results.Sample{CaseID: c.ID, Phase: phase, Round: round, Seq: seq, StartedUnixMicro: 1_767_323_045_000_000 + 1000*seq,
					Launches: 10, US: 10 + float64(i) + 0.1*float64(round),
					ClockMHz: 1690 + float64(round), PowerW: 650, TempC: 60}
				if round == 1 {
					s.Throttle = kernels.Throttled(kernels.PowerCap)
				}
				if i == 4 {
					s.ClockMHz = 0
				}
				if err := r.Append(s); err != nil {
					t.Fatal(err)
				}
				seq++
			}
		}
	}
	return r
}

func exportTo(t testing.TB, r *results.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := export.Write(r, &b, export.FormatParquet, export.Samples{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.parquet")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An export must read like its run file.
func TestReadRuns(t *testing.T) {
	r := exportedRunFile(t)
	found, err := ReadRuns(exportTo(t, r))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		t.Fatalf("%d runs", len(found))
	}
	x := found[0]
	if x.Run != r.ID() || x.Host != "node1" || x.Labels["rack"] != "7" || x.Cards["cuda:0"] != "GPU-cuda:0" ||
		x.Cards["cuda:1"] != "GPU-cuda:1" {
		t.Errorf("run %s on %s, labels %v, cards %v", x.Run, x.Host, x.Labels, x.Cards)
	}
	if m, w := x.Meta, r.Meta(); !reflect.DeepEqual(m.Fingerprint, w.Fingerprint) || !reflect.DeepEqual(m.Ceilings, w.Ceilings) ||
		!m.Created.Equal(w.Created) || m.Gemmaudit != w.Gemmaudit || !reflect.DeepEqual(m.ReferenceClock, w.ReferenceClock) {
		t.Errorf("meta %+v\nwant %+v", m, w)
	}
	want, err := r.Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Series) != len(want.Series) || len(x.Sentinels) != len(want.Sentinels) || len(x.Sustained) != 2 ||
		len(x.Sustained[0].Samples) != 3 {
		t.Fatalf("%d series, %d sentinels, %d sustained cases", len(x.Series), len(x.Sentinels), len(x.Sustained))
	}
	for i, s := range want.Series {
		got := x.Series[i]
		if got.Key != s.Key || !reflect.DeepEqual(got.Peak, s.Peak) || got.Bandwidth != s.Bandwidth || len(got.Rows) != len(s.Rows) {
			t.Fatalf("series %v of %d rows, want %v of %d", got.Key, len(got.Rows), s.Key, len(s.Rows))
		}
		for k, row := range s.Rows {
			if got.Rows[k].Case.M != row.Case.M || len(got.Rows[k].Samples) != len(row.Samples) {
				t.Fatalf("%v row %d: m%d with %d samples", s.Key, k, got.Rows[k].Case.M, len(got.Rows[k].Samples))
			}
			for j, w := range row.Samples {
				g := got.Rows[k].Samples[j]
				g.CaseID, g.Launches = w.CaseID, w.Launches
				if g != w {
					t.Errorf("sample %+v, want %+v", g, w)
				}
			}
		}
	}
}

// Foreign files are refused by name; early exports are read.
func TestReadForeignParquet(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, err := os.ReadFile(exportTo(t, exportedRunFile(t)))
	if err != nil {
		t.Fatal(err)
	}
	early := func() []byte {
		type line struct {
			Device    string  `parquet:"device,dict"`
			Kernel    string  `parquet:"kernel,dict"`
			DType     string  `parquet:"dtype,dict"`
			M         int     `parquet:"m"`
			N         int     `parquet:"n"`
			K         int     `parquet:"k"`
			US        float64 `parquet:"us"`
			StartedUS int64   `parquet:"started_us"`
			Host      string  `parquet:"host,dict"`
		}
		var b bytes.Buffer
		w := parquet.NewGenericWriter[line](&b)
		if _, err := w.Write([]line{{"cuda:0", "cublas", "bf16", 128, 4096, 4096, 10, 1_700_000_000_000_000, "node2"}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}()
	type other struct {
		Name string `parquet:"name"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[other](&b)
	if _, err := w.Write([]other{{"x"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{
		{write("text.parquet", []byte("this is no Parquet file")), "the Parquet file is damaged"},
		{write("empty.parquet", nil), "the Parquet file is damaged"},
		{write("cut.parquet", good[:len(good)/2]), "the Parquet file is damaged"},
		{write("other.parquet", b.Bytes()), "no column device: it is no export of samples"},
	} {
		var format *results.FormatError
		if _, err := ReadRuns(c.name); !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", filepath.Base(c.name), err, c.want)
		}
	}
	if _, err := ReadRuns(dir); err == nil {
		t.Error("a folder is read")
	}
	found, err := ReadRuns(write("early.parquet", early))
	if err != nil || len(found) != 1 || found[0].Host != "node2" ||
		found[0].Series[0].Rows[0].Samples[0].StartedUnixMicro != 1_700_000_000_000_000 || found[0].Meta.Created.IsZero() {
		t.Errorf("an early export: %+v, %v", found, err)
	}
}

// Any column may be empty, even the times.
func TestReadSparseParquet(t *testing.T) {
	type line struct {
		Device    string  `parquet:"device,dict"`
		Kernel    string  `parquet:"kernel,dict"`
		DType     string  `parquet:"dtype,dict"`
		M         int     `parquet:"m"`
		N         int     `parquet:"n"`
		K         int     `parquet:"k"`
		US        float64 `parquet:"us"`
		StartedUS *int64  `parquet:"started_us,optional"`
		Card      *string `parquet:"card,optional,dict"`
	}
	started, card := int64(1_700_000_000_000_000), "GPU-1"
	later := started + 5
	for name, c := range map[string]struct {
		started [2]*int64
		card    *string
		want    time.Time
	}{
		"nothing is told": {},
		"a card":          {card: &card},
		"times":           {started: [2]*int64{&later, &started}, want: time.UnixMicro(started)},
		"one time":        {started: [2]*int64{nil, &later}, want: time.UnixMicro(later)},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := parquet.NewGenericWriter[line](&b)
			for i, at := range c.started {
				_, err := w.Write([]line{{"cuda:0", "cublas", "bf16", 128 + i, 4096, 4096, 10, at, c.card}})
				must(t, err)
			}
			must(t, w.Close())
			path := filepath.Join(t.TempDir(), "x.parquet")
			must(t, os.WriteFile(path, b.Bytes(), 0o600))
			found, err := ReadRuns(path)
			must(t, err)
			if len(found) != 1 || len(found[0].Series) != 1 || len(found[0].Series[0].Rows) != 2 {
				t.Fatalf("runs %+v", found)
			}
			if got := found[0].Meta.Created; got.IsZero() != c.want.IsZero() || !got.Equal(c.want) {
				t.Errorf("the run was made at %v, want %v", got, c.want)
			}
			if got := found[0].Cards["cuda:0"]; (got != "") != (c.card != nil) {
				t.Errorf("card %q", got)
			}
		})
	}
}

func FuzzReadRuns(f *testing.F) {
	good, err := os.ReadFile(exportTo(f, exportedRunFile(f)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-20])
	f.Add([]byte(parquetMark))
	for _, b := range hostileParquet(f) {
		if len(b) < 1<<16 {
			f.Add(b)
		}
	}
	for _, codec := range codecs {
		columns := samplesOf(3)
		for i := range columns {
			columns[i].codec = codec
			columns[i].pages[0].body = compressed(f, codec, columns[i].pages[0].body)
		}
		f.Add(rawParquet(f, 3, columns))
	}
	for _, name := range []string{"lz4-corrupt", "lz4-valid"} {
		b, err := os.ReadFile(filepath.Join("testdata", "parquet", name+".parquet"))
		must(f, err)
		f.Add(b)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(dir, "x.parquet")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := ReadRuns(path)
		if err != nil {
			return
		}
		for _, r := range found {
			for _, s := range r.Series {
				for _, row := range s.Rows {
					if err := row.Case.Validate(); err != nil {
						t.Error(err)
					}
					for i := range row.Samples {
						if err := row.Samples[i].Check(); err != nil {
							t.Error(err)
						}
					}
				}
			}
		}
	})
}
