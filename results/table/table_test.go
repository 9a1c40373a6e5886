package table

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func example() *Table {
	t := example3()
	s := &t.Series[0]
	s.Intervals[0].Filled = true
	s.Intervals[0].Proofs = []Proof{{M: 65, DirectUS: 100, RemedyUS: 80, GainLo: 1.24, GainMid: 1.25, GainHi: 1.26, Numerics: &Numerics{
		DirectError: 0.0017, RemedyError: 0.0016, SameBits: true, BatchInvariant: true, OtherMs: []int{1, 32, 64, 66}, Rows: 16,
		Columns: 12,
	}}}
	s.Intervals = append(s.Intervals,
		Interval{From: 245, To: 248,
			Action: Action{Kind: Algorithm, Kernel: "cublaslt", Algorithm: Attributes{66, 23, 16, 1, 2, 3, 4, 5, 6}}},
		Interval{From: 249, To: 256, Action: Action{Kind: Pad, PadTo: 264, Pad: Copied}},
		Interval{From: 257, To: 257, Action: Action{Kind: Algorithm, Kernel: "cublaslt", Algorithm: Attributes{ID: 7}}})
	t.Series[1].FromM, t.Series[1].ToM, t.Series[1].Served = 1, 64, 8
	return t
}

// example3 is the part of it that the third version could express, and the first two.
func example3() *Table {
	return &Table{
		Schema: Schema, Created: "2024-05-06T07:08:09Z",
		Validators: Validators{
			Device: `Some "CPU" */ with ??/ trigraphs`, Driver: "580.1",
			Libraries: map[string]string{"openblas": "0.3.21", "onednn": "2.6.3"},
			Kernel:    "6.1.0-18-amd64", Regime: "engine", ClockPolicy: "governor performance, turbo on", Arch: "amd64",
			CPUModel: "Prozessor für Größen", Cores: 4, Threads: 2,
			Features: []string{"avx512", "avx2"}, Gemmaudit: "v0.1.0",
		},
		Series: []Series{
			{
				Product: Product{Kernel: "onednn", DType: "bf16", Layout: KN, N: 4096, K: 4096}, Default: Action{Kind: Direct},
				Intervals: []Interval{
					{From: 65, To: 96, Action: Action{Kind: Pad, PadTo: 96, Pad: InPlace}},
					{From: 100, To: 160, Step: 4, Action: Action{Kind: Split, First: []int{64}}, Proofs: []Proof{
						{M: 100, DirectUS: 200, RemedyUS: 150, GainLo: 1.3, GainMid: 4.0 / 3, GainHi: 1.36},
						{M: 160, DirectUS: 300.5, RemedyUS: 250.25, GainLo: 1.18, GainMid: 1.2, GainHi: 1.22},
					}},
					{From: 161, To: 161, Action: Action{Kind: Split, First: []int{96, 64}}},
					{From: 200, To: 240, Action: Action{Kind: Kernel, Kernel: "tiled"}},
				},
			},
			{Product: Product{Kernel: "onednn", DType: "fp32", Layout: KN, N: 4096, K: 4096},
				Default: Action{Kind: Kernel, Kernel: `ours, "the" tiled`}, Intervals: []Interval{
					{From: 1, To: 8, Action: Action{Kind: Direct}},
				}},
			{Product: Product{Kernel: "tiled", DType: "fp32", Layout: KN, N: 8, K: 16}, Intervals: []Interval{}},
		},
	}
}

func TestLookup(t *testing.T) {
	table := example()
	if err := table.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kernel, dtype string
		n, k, m       int
		want          Action
		parts         []int
	}{
		{"onednn", "bf16", 4096, 4096, 64, Action{Kind: Direct}, []int{64}},
		{"onednn", "bf16", 4096, 4096, 65, Action{Kind: Pad, PadTo: 96, Pad: InPlace}, []int{96}},
		{"onednn", "bf16", 4096, 4096, 96, Action{Kind: Pad, PadTo: 96, Pad: InPlace}, []int{96}},
		{"onednn", "bf16", 4096, 4096, 250, Action{Kind: Pad, PadTo: 264, Pad: Copied}, []int{264}},
		{"onednn", "bf16", 4096, 4096, 247,
			Action{Kind: Algorithm, Kernel: "cublaslt", Algorithm: Attributes{66, 23, 16, 1, 2, 3, 4, 5, 6}}, []int{247}},
		{"onednn", "bf16", 4096, 4096, 257, Action{Kind: Algorithm, Kernel: "cublaslt", Algorithm: Attributes{ID: 7}}, []int{257}},
		{"onednn", "bf16", 4096, 4096, 97, Action{Kind: Direct}, []int{97}},
		{"onednn", "bf16", 4096, 4096, 100, Action{Kind: Split, First: []int{64}}, []int{64, 36}},
		{"onednn", "bf16", 4096, 4096, 161, Action{Kind: Split, First: []int{96, 64}}, []int{96, 64, 1}},
		{"onednn", "bf16", 4096, 4096, 220, Action{Kind: Kernel, Kernel: "tiled"}, []int{220}},
		{"onednn", "bf16", 4096, 4096, 1 << 30, Action{Kind: Direct}, []int{1 << 30}},
		{"onednn", "fp32", 4096, 4096, 8, Action{Kind: Direct}, []int{8}},
		{"onednn", "fp32", 4096, 4096, 9, Action{Kind: Kernel, Kernel: `ours, "the" tiled`}, []int{9}},
		{"tiled", "fp32", 8, 16, 5, Action{Kind: Direct}, []int{5}},
		{"tiled", "fp32", 8, 17, 5, Action{Kind: Direct}, []int{5}},
		{"none", "fp32", 8, 16, 5, Action{Kind: Direct}, []int{5}},
	} {
		got := table.Lookup(Product{Kernel: tt.kernel, DType: tt.dtype, Layout: KN, N: tt.n, K: tt.k}, tt.m)
		if !got.Equal(tt.want) || got.Kind != tt.want.Kind {
			t.Errorf("%s/%s n%d k%d m%d: %+v, expected %+v", tt.kernel, tt.dtype, tt.n, tt.k, tt.m, got, tt.want)
		}
		if parts := got.Parts(tt.m); !slices.Equal(parts, tt.parts) {
			t.Errorf("m%d: parts %v, expected %v", tt.m, parts, tt.parts)
		}
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	table := example()
	var sink Action
	if n := testing.AllocsPerRun(100, func() {
		for m := 1; m < 260; m++ {
			sink = table.Lookup(table.Series[0].Product, m)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_ = sink
}

func TestValidateReportsEverything(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Table)
		want   []string
	}{
		{"schema", func(t *Table) { t.Schema = "x" }, []string{`schema is "x", expected "gemmaudit/table/v4"`}},
		{"created", func(t *Table) { t.Created = "today" }, []string{`created is "today", expected a time`}},
		{"words", func(t *Table) {
			v := &t.Validators
			v.Gemmaudit, v.Device, v.Threads, v.Features[0] = "a\nb", "\xff", -1, "\t"
			v.Libraries["x"] = "\x00"
		}, []string{"validators: gemmaudit is", "validators: device is", "validators: library x is", "validators: feature is",
			"threads is -1"}},
		{"features", func(t *Table) { t.Validators.Features = make([]string, 1025) }, []string{"1025 features, expected at most 1024"}},
		{"order", func(t *Table) { t.Series[0], t.Series[1] = t.Series[1], t.Series[0] },
			[]string{"onednn/bf16/n4096 k4096 stands after onednn/fp32/n4096 k4096"}},
		{"twice", func(t *Table) { t.Series[1].DType = "bf16" }, []string{"series onednn/bf16/n4096 k4096 stands twice"}},
		{"overlap", func(t *Table) { t.Series[0].Intervals[0].To = 100; t.Series[0].Intervals[0].Action.PadTo = 128 },
			[]string{"interval 2 (m100 to m160): begins before the one"}},
		{"bounds", func(t *Table) { t.Series[0].Intervals[0].From = 0; t.Series[0].Intervals[3].To = 100 },
			[]string{"interval 1 (m0 to m96)", "interval 4 (m200 to m100)"}},
		{"split too long", func(t *Table) { t.Series[0].Intervals[1].Action.First[0] = 100 },
			[]string{"the leading parts [100] add up to 100, expected less than 100"}},
		{"split of nothing", func(t *Table) { t.Series[0].Intervals[1].Action.First = nil }, []string{"a split with 0 leading parts"}},
		{"split part", func(t *Table) { t.Series[0].Intervals[1].Action.First[0] = -5 }, []string{"a leading part of -5"}},
		{"pad too short", func(t *Table) { t.Series[0].Intervals[0].Action.PadTo = 95 }, []string{"pad_to is 95, expected 96 to"}},
		{"no kernel", func(t *Table) { t.Series[0].Intervals[3].Action.Kernel = "" }, []string{"no name"}},
		{"kind", func(t *Table) { t.Series[0].Intervals[3].Action = Action{Kind: "fly"} }, []string{`unknown action "fly"`}},
		{"foreign fields", func(t *Table) {
			t.Series[0].Intervals[0].Action = Action{Kind: Direct, PadTo: 1, First: []int{1}, Kernel: "x", Pad: Copied,
				Algorithm: Attributes{ID: 1}}
		}, []string{"direct with parts [1]", "direct with pad_to 1", `direct with kernel "x"`, `direct with pad "copied"`,
			"direct with an algorithm"}},
		{"kind of pad", func(t *Table) { t.Series[0].Intervals[0].Action.Pad = "" }, []string{`pad is "", expected in-place or copied`}},
		{"attributes", func(t *Table) {
			t.Series[0].Intervals[4].Action.Algorithm = Attributes{}
			t.Series[0].Intervals[6].Action.Algorithm.Cluster = 1 << 16
		}, []string{"no attributes", "an attribute"}},
		{"filled", func(t *Table) { t.Series[0].Intervals[1].Filled = true }, []string{"it is filled"}},
		{"served", func(t *Table) { t.Series[1].Served++ }, []string{"served is 9, the intervals have 8"}},
		{"swept", func(t *Table) { t.Series[1].ToM = 7 }, []string{"interval 1 (m1 to m8): expected within m1 to m7, which were swept"}},
		{"range", func(t *Table) { t.Series[1].FromM = 0 }, []string{"swept from m0 to m64, expected 1 <= from_m"}},
		{"numerics", func(t *Table) {
			n := t.Series[0].Intervals[0].Proofs[0].Numerics
			n.DirectError, n.RemedyError, n.Rows, n.OtherMs[0] = -1, math.NaN(), 0, 0
		}, []string{"an error is -1", "an error is NaN", "numerics of 0 rows", "numerics at m0"}},
		{"default", func(t *Table) { t.Series[2].Default = Action{Kind: Split, First: []int{1}} }, []string{"the default action"}},
		{"step", func(t *Table) { t.Series[0].Intervals[1].Step = 7 }, []string{"step 7 does not lead"}},
		{"size", func(t *Table) { t.Series[2].N = 0 }, []string{"tiled/fp32/n0 k16: n and k"}},
		{"proof", func(t *Table) {
			p := t.Series[0].Intervals[1].Proofs
			p[0].M, p[0].DirectUS, p[1].GainLo = 99, 0, 9
		}, []string{"proof at m99, expected ascending", "direct_us is 0", "proof at m160: gains 9, 1.2, 1.22 are not ascending"}},
		{"upper gain", func(t *Table) { t.Series[0].Intervals[1].Proofs[1].GainHi = 1.19 },
			[]string{"proof at m160: gains 1.18, 1.2, 1.19 are not ascending"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := example()
			tt.change(table)
			err := table.Validate()
			if err == nil {
				t.Fatal("nothing was found wrong")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Errorf("%d complaints, expected %d:\n%v", len(lines), len(tt.want), err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no word of %q in:\n%v", want, err)
				}
			}
			if _, err := table.Marshal(); err == nil {
				t.Error("an invalid table was written")
			}
		})
	}
}

func TestSort(t *testing.T) {
	table := example()
	want := example()
	slices.Reverse(table.Series)
	for i := range table.Series {
		slices.Reverse(table.Series[i].Intervals)
	}
	table.Sort()
	if !reflect.DeepEqual(table, want) {
		t.Errorf("sorted:\n%+v", table)
	}
}

func TestGolden(t *testing.T) {
	for name, write := range map[string]func(*Table, *bytes.Buffer) error{
		"table.json": func(t *Table, b *bytes.Buffer) error {
			data, err := t.Marshal()
			b.Write(data)
			return err
		},
		"table.csv":       func(t *Table, b *bytes.Buffer) error { return t.WriteCSV(b, nil) },
		"table.h.golden":  func(t *Table, b *bytes.Buffer) error { return t.WriteHeader(b, "") },
		"table.go.golden": func(t *Table, b *bytes.Buffer) error { return t.WriteGo(b, "") },
	} {
		var b bytes.Buffer
		if err := write(example(), &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, b.Bytes()) {
			t.Errorf("%s differs from its golden file (rewrite it with -update):\n%s", name, b.Bytes())
		}
	}
}

func TestParse(t *testing.T) {
	data, err := example().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	parsesAs(t, data, example())
	refused(t, data, []spoiled{
		{"newer", "table/v4", "table/v5",
			`table: schema is "gemmaudit/table/v5", this program reads "gemmaudit/table/v4", "gemmaudit/table/v3", "gemmaudit/table/v2"`},
		{"algorithms in an old one", "table/v4", "table/v3",
			`table: line 38, column 20: schema "gemmaudit/table/v3" has no field "filled" of an interval`},
		{"no layout", `"layout": "kn"`, `"layout": ""`, `table: series onednn/bf16/n4096 k4096: layout is "", expected kn or nk`},
		{"layout in an old one", "table/v4", "table/v2",
			`table: line 28, column 16: schema "gemmaudit/table/v2" has no field "layout" of a series`},
		{"half old", "table/v4", "table/v1",
			`table: line 16, column 16: schema "gemmaudit/table/v1" has no field "features" of validators`},
		{"no schema", `"schema"`, `"scheme"`, "table: line 202, column 2: there is no field"},
		{"unknown field", `"created"`, `"creation"`, `table: line 3, column 14: unknown field "creation" of a table`},
		{"type", `"from": 65`, `"from": "65"`, `table: line 36, column 19: text, expected a whole number for from`},
		{"invalid", `"from": 65`, `"from": 6500`, "table: series onednn/bf16/n4096 k4096: interval 1"},
	})
	if _, err := Parse(nil); err == nil {
		t.Error("nothing was accepted as a table")
	}
}

// parsesAs requires data to parse as the example, with the default that its last series omits.
func parsesAs(t *testing.T, data []byte, want *Table) {
	t.Helper()
	got, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	want.Series[2].Default = Action{Kind: Direct}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("parsed\n%+v\nexpected\n%+v", got, want)
	}
}

// Without features, and with the program's version next to the validators.
func TestParseV1(t *testing.T) {
	data, err := os.ReadFile("testdata/table-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	want := example3()
	want.Validators.Features = nil
	parsesAs(t, data, want)
	refused(t, data, []spoiled{
		{"unknown field", `"created"`, `"creation"`, `table: line 3, column 14: unknown field "creation" of a table`},
		{"invalid", `"from": 65`, `"from": 6500`, "table: series onednn/bf16/n4096 k4096: interval 1"},
		{"version at its new place", `"arch"`, `"gemmaudit": "v2", "arch"`,
			`table: line 15, column 17: schema "gemmaudit/table/v1" has no field "gemmaudit" of validators`},
	})
}

// spoiled is a table in which old is replaced by new, and the expected error.
type spoiled struct{ name, old, new, want string }

func refused(t *testing.T, data []byte, cases []spoiled) {
	t.Helper()
	for _, tt := range cases {
		text := strings.Replace(string(data), tt.old, tt.new, 1)
		if _, err := Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, expected %s", tt.name, err, tt.want)
		}
	}
	if _, err := Parse(append(data, "{}"...)); err == nil {
		t.Error("something after the table was accepted")
	}
}

// Header cells are not guarded.
func TestCSVGuards(t *testing.T) {
	table := example()
	table.Series[2].Kernel = "=HYPERLINK()"
	table.Sort()
	var b bytes.Buffer
	if err := table.WriteCSV(&b, func(cell string) string { return strings.Replace(cell, "=", "'=", 1) }); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.HasPrefix(text, "kernel,dtype,") || !strings.Contains(text, "\n'=HYPERLINK(),fp32,") {
		t.Errorf("written:\n%s", text)
	}
}

func TestProductNames(t *testing.T) {
	for want, p := range map[string]Product{
		"a/bf16/n8 k16":                 {Kernel: "a", DType: "bf16", Layout: KN, N: 8, K: 16},
		"a/bf16/n8 k16 nk weights int4": {Kernel: "a", DType: "bf16", Layout: NK, Weights: "int4", N: 8, K: 16},
		"n8 k16":                        {N: 8, K: 16},
		"a/n8 k16":                      {Kernel: "a", N: 8, K: 16},
		"bf16/n8 k16 nk":                {DType: "bf16", Layout: NK, N: 8, K: 16},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}

func TestSourceNames(t *testing.T) {
	for _, bad := range []string{"A", "1a", "a-b", "a b"} {
		if err := example().WriteHeader(&bytes.Buffer{}, bad); err == nil {
			t.Errorf("prefix %q was accepted", bad)
		}
	}
	for _, bad := range []string{"_", "func", "a-b"} {
		if err := example().WriteGo(&bytes.Buffer{}, bad); err == nil {
			t.Errorf("package %q was accepted", bad)
		}
	}
}

// Without layouts.
func TestParseV2(t *testing.T) {
	data, err := os.ReadFile("testdata/table-v2.json")
	if err != nil {
		t.Fatal(err)
	}
	parsesAs(t, data, example3())
}

// Without kinds of pads.
func TestParseV3(t *testing.T) {
	data, err := os.ReadFile("testdata/table-v3.json")
	if err != nil {
		t.Fatal(err)
	}
	parsesAs(t, data, example3())
}

func TestServed(t *testing.T) {
	if served, of := example().Served(); served != 8 || of != 64 {
		t.Errorf("%d of %d", served, of)
	}
	fewer := example()
	fewer.Series[1].Intervals = nil
	fewer.Recount()
	if served, of := fewer.Served(); served != 0 || of != 64 {
		t.Errorf("%d of %d of a table that lost its intervals", served, of)
	}
	if served, of := example3().Served(); served != 0 || of != 0 {
		t.Errorf("%d of %d of a table that does not tell", served, of)
	}
}

func TestLookupOfTheOtherLayout(t *testing.T) {
	table := example()
	nk := table.Series[0].Product
	nk.Layout = NK
	if a := table.Lookup(nk, 65); a.Kind != Direct {
		t.Errorf("%v m65: %+v, expected the direct product", nk, a)
	}
}

func FuzzParse(f *testing.F) {
	data, err := example().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema":"gemmaudit/table/v4","created":"2024-05-06T07:08:09Z","series":[{"kernel":"a","dtype":"b","layout":"nk",` +
		`"n":1,"k":1,"from_m":1,"to_m":9,"served":1,"default":{"kind":"direct"},"intervals":[{"from":2,"to":2,"filled":true,` +
		`"action":{"kind":"algorithm","kernel":"a","algorithm":{"id":1,"tile":0,"stages":0,"split_k":0,"reduction":0,"swizzle":0,` +
		`"custom":0,"inner":0,"cluster":0}}}]}]}`))
	f.Add([]byte(`{"schema":"gemmaudit/table/v3","created":"2024-05-06T07:08:09Z","series":[{"kernel":"a","dtype":"b","layout":"nk",` +
		`"n":1,"k":1,"default":{"kind":"direct"},"intervals":[]}]}`))
	f.Add([]byte(`{"schema":"gemmaudit/table/v2","created":"2024-05-06T07:08:09Z","validators":{"features":["x"]},"series":null}`))
	f.Add([]byte(`{"schema":"gemmaudit/table/v1","created":"2024-05-06T07:08:09Z","series":null}`))
	f.Add([]byte(`{"schema":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Parse(data)
		if err != nil {
			return
		}
		again, err := table.Marshal()
		if err != nil {
			t.Fatalf("an accepted table can't be written: %v", err)
		}
		if _, err := Parse(again); err != nil {
			t.Fatalf("a written table can't be read: %v", err)
		}
		for _, write := range []func() error{
			func() error { return table.WriteCSV(&bytes.Buffer{}, nil) },
			func() error { return table.WriteHeader(&bytes.Buffer{}, "") },
			func() error { return table.WriteGo(&bytes.Buffer{}, "") },
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	table := example()
	m := 0
	for b.Loop() {
		m = (m + 1) & 255
		table.Lookup(table.Series[0].Product, m)
	}
}

// everyM is a table of five products with a separate action for every M to 32768.
func everyM() *Table {
	t := &Table{Schema: Schema, Created: "2024-01-01T00:00:00Z", Validators: Validators{Device: "card"}}
	for i := range 5 {
		s := Series{Product: Product{Kernel: "library", DType: "bf16", Layout: NK, N: 1024 * (i + 1), K: 4096},
			Default: Action{Kind: Direct}}
		for m := 1; m <= 32768; m++ {
			s.Intervals = append(s.Intervals, Interval{From: m, To: m, Action: Action{Kind: Pad, PadTo: m + 1 + m%2, Pad: Copied}})
		}
		t.Series = append(t.Series, s)
	}
	return t
}

// The largest realistic table, and one of the same text size with the shortest intervals. B/B is bytes
// allocated per byte of text.
func BenchmarkParseEveryM(b *testing.B) {
	night, err := everyM().Marshal()
	if err != nil {
		b.Fatal(err)
	}
	var least bytes.Buffer
	least.WriteString(`{"schema":"gemmaudit/table/v4","created":"2024-01-01T00:00:00Z","validators":{},"series":[{"kernel":"l",` +
		`"dtype":"b","layout":"nk","n":1,"k":1,"intervals":[`)
	for m := 1; m <= maxIntervals; m++ {
		if m > 1 {
			least.WriteByte(',')
		}
		fmt.Fprintf(&least, `{"from":%d,"to":%d,"action":{}}`, m, m)
	}
	least.WriteString("]}]}")
	for name, text := range map[string][]byte{"night": night, "least": least.Bytes()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				if _, err := Parse(text); err != nil {
					b.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/float64(len(text)), "B/B")
		})
	}
}

// Among 32768 intervals.
func BenchmarkLookupEveryM(b *testing.B) {
	t := everyM()
	m := 0
	for b.Loop() {
		m = (m + 7919) & 32767
		t.Lookup(t.Series[4].Product, m)
	}
}
