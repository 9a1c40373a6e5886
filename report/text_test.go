package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report/golden"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func fixtureDevices() ([]DeviceInfo, []kernels.Missing) {
	ceilings := fixtureCeilings()
	return []DeviceInfo{{
		Spec: fixtureSpec(), Ceilings: &ceilings,
		Kernels: []KernelInfo{
			{Name: "amx", Description: "TDPBF16PS, TDPBSSD, 2×2 tiles", Operations: []kernels.Operation{kernels.GEMM},
				DTypes: []kernels.DType{kernels.BF16, kernels.INT8},
				Packs: map[kernels.Layout][]kernels.DType{kernels.RowMajor: {kernels.BF16, kernels.INT8},
					kernels.Transposed: {kernels.INT8}},
				Unsupported: map[kernels.DType]string{kernels.FP32: "AMX has no fp32"}},
			{Name: "tiled", Description: "AVX-512, 6×64 register tile", Operations: []kernels.Operation{kernels.GEMM},
				DTypes: []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8}},
			{Name: "flash", Description: "online softmax over tiles of keys",
				Operations: []kernels.Operation{kernels.AttentionPrefill, kernels.AttentionDecode},
				DTypes:     []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16}},
		},
		Missing: []kernels.Missing{{Name: "openblas", Reason: "libopenblas.so.0: cannot open shared object file; install libopenblas0"}},
	}}, []kernels.Missing{{Name: "cuda", Reason: "libcuda.so.1 is not there: no NVIDIA driver"}}
}

func fixtureSelftest() *Selftest {
	return &Selftest{
		Checks: []CheckStep{
			{Device: "cpu", Kernel: "attention", DType: kernels.FP16, Passed: true, Cases: 68, WorstRatio: 0.0092},
			{Device: "cpu", Kernel: "attention", DType: kernels.INT8, Skipped: "attention has operands of fp32, fp16 and bf16"},
			{Device: "cpu", Kernel: "amx", DType: kernels.BF16, Passed: true, Cases: 96, WorstRatio: 0.4127,
				Subnormals: kernels.SubnormalsZero,
				RowBits:    &RowBits{Ms: []int{1, 2, 16}, ByM: []int{1}, Threads: []int{1, 3}, ByThreads: []int{3}}},
			{Device: "cpu", Kernel: "amx", DType: kernels.FP32, Skipped: "AMX has no fp32"},
			{Device: "cpu", Kernel: "naive", DType: kernels.FP16, Passed: true, Cases: 102, WorstRatio: 0.2,
				Subnormals: kernels.SubnormalsKept,
				RowBits:    &RowBits{Ms: []int{1, 2, 16}, ByM: []int{}, Threads: []int{1, 3}}},
			{Device: "cpu", Kernel: "linear", DType: kernels.BF16, Passed: true, Cases: 88, WorstRatio: 0.31, HalfSums: kernels.BF16},
			{Device: "cpu", Kernel: "tiled", DType: kernels.FP32, Cases: 12, WorstRatio: 17.2,
				Failure: "m33 n17 k5: element (32,16) is 1.5, expected 1.25 ± 0.001"},
			{Device: "cpu", Kernel: "onednn", DType: kernels.INT8, Cases: 3, Wrong: true,
				Failure: "m19 n34 k8: element (0,0) is -637, expected -32639", Known: "sums saturate at 16 bits"},
		},
		Noise: &Noise{Cases: 40, Rounds: 9, Spread: 0.0123, Comparisons: 40, FalseFlags: 2,
			Rate: stats.Interval{Lo: 0.006, Mid: 0.05, Hi: 0.169}, Level: 0.05},
	}
}

func fixtureHealth() []Health {
	return []Health{
		{Name: "governor", Level: "problem", Found: "powersave", Hint: "cpupower frequency-set -g performance"},
		{Name: "turbo", Level: "warning", Found: "on", Hint: "clocks will follow load and temperature"},
		{Name: "load", Level: "ok", Found: "0.02"},
		{Name: "hypervisor", Level: "unknown", Found: "no rights to read it"},
	}
}

func fixturePlan() *Plan {
	return &Plan{
		Series: []PlanSeries{{Series: fixtureKey, From: "llama3-8b:gate_up_proj", Cases: 512, FromM: 4, ToM: 2048,
			Estimate: Seconds(74 * time.Second)}},
		Cases: 512, Rounds: 5, Samples: 2560, Regime: results.Engine, Seed: 42, Shard: "3/8", Deadline: Seconds(time.Minute),
		Estimate: Seconds(74 * time.Second),
		Skipped:  []PlanSkip{{What: "cpu/amx/fp32", Reason: "AMX has no fp32"}},
		Settings: []PlanSetting{{Name: "distribution", Value: "normal"}},
	}
}

func fixtureRunFile() *RunFile {
	return &RunFile{
		Action: "merged", Path: "all.db",
		Sources: []RunSource{{Path: "a|b.db", Cases: 10, Samples: 50},
			{Path: "b.db", Cases: 10, Samples: 40, Note: "10 samples were already there"}},
		Series: []results.SeriesKey{fixtureKey}, Cases: 20, Samples: 90, Failures: 2,
		Warnings: []rules.Warning{{Subject: "b.db", Text: "interrupted"}},
	}
}

func documents() map[string]func(io.Writer, Format) error {
	return map[string]func(io.Writer, Format) error{
		"choices":      func(w io.Writer, f Format) error { return WriteChoices(w, f, fixtureChoices()) },
		"choices-diff": func(w io.Writer, f Format) error { return WriteChoicesDiff(w, f, fixtureChoicesDiff()) },
		"devices": func(w io.Writer, f Format) error {
			d, m := fixtureDevices()
			return WriteDevices(w, f, d, m)
		},
		"medians": func(w io.Writer, f Format) error { return WriteMedians(w, f, fixtureMeta(), fixtureSeries(), nil) },
		"audit": func(w io.Writer, f Format) error {
			return WriteAudit(w, f, fixtureMeta(), fixtureSeries(), fixtureAudit())
		},
		"audit-at-clock": func(w io.Writer, f Format) error {
			return WriteAudit(w, f, fixtureMeta(), fixtureSeries(), fixtureAtClock())
		},
		"medians-at-clock": func(w io.Writer, f Format) error {
			return WriteMedians(w, f, fixtureMeta(), fixtureSeries(), fixtureAtClock())
		},
		"splits-sustained": func(w io.Writer, f Format) error {
			return WriteSplits(w, f, fixtureMeta(), fixtureSustainedSplits())
		},
		"splits":     func(w io.Writer, f Format) error { return WriteSplits(w, f, fixtureMeta(), fixtureSplits()) },
		"selftest":   func(w io.Writer, f Format) error { return WriteSelftest(w, f, fixtureSelftest()) },
		"decode":     func(w io.Writer, f Format) error { return WriteDecodeBench(w, f, fixtureDecodeBench()) },
		"model":      func(w io.Writer, f Format) error { return WriteModelValidation(w, f, fixtureModelValidation()) },
		"perplexity": func(w io.Writer, f Format) error { return WritePerplexity(w, f, fixturePerplexity()) },
		"doctor":     func(w io.Writer, f Format) error { return WriteDoctor(w, f, fixtureHealth()) },
		"plan":       func(w io.Writer, f Format) error { return WritePlan(w, f, fixturePlan()) },
		"diff":       func(w io.Writer, f Format) error { return WriteDiff(w, f, fixtureDiff(), nil) },
		"runfile":    func(w io.Writer, f Format) error { return WriteRunFile(w, f, fixtureRunFile()) },
	}
}

func TestGolden(t *testing.T) {
	for name, write := range documents() {
		for _, f := range Formats() {
			t.Run(name+"/"+string(f), func(t *testing.T) {
				var b bytes.Buffer
				err := write(&b, f)
				var unsupported *UnsupportedFormat
				if f == Bench && errors.As(err, &unsupported) {
					if b.Len() > 0 {
						t.Errorf("an unsupported format left %q behind", b.String())
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				checkFormat(t, f, b.Bytes())
				if f == JSON {
					golden.Compare(t, name+".keys", jsonKeys(t, b.Bytes()))
					return
				}
				if base, sustained := strings.CutSuffix(name, "-sustained"); sustained && f == Bench {
					name = base // same output as without samples
				}
				golden.Compare(t, name+"."+string(f), b.String())
			})
		}
	}
}

// jsonKeys lists the paths of a JSON document's keys with the kinds of their values: the names and types that
// readers rely on.
func jsonKeys(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		kind := "null"
		switch v := v.(type) {
		case map[string]any:
			kind = "object"
			for k, e := range v {
				walk(path+"."+k, e)
			}
		case []any:
			kind = "list"
			for _, e := range v {
				walk(path+"[]", e)
			}
		case string:
			kind = "string"
		case float64:
			kind = "number"
		case bool:
			kind = "bool"
		}
		if !slices.Contains(kinds[path], kind) {
			kinds[path] = append(kinds[path], kind)
		}
	}
	walk("", v)
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(kinds)) {
		slices.Sort(kinds[path])
		if path != "" && !slices.Equal(kinds[path], []string{"object"}) {
			fmt.Fprintf(&b, "%s %s\n", strings.TrimPrefix(path, "."), strings.Join(kinds[path], " "))
		}
	}
	return b.String()
}

func checkFormat(t *testing.T, f Format, out []byte) {
	t.Helper()
	switch f {
	case JSON:
		if !json.Valid(out) {
			t.Errorf("invalid JSON: %s", out)
		}
	case JSONL:
		for line := range bytes.Lines(out) {
			if !json.Valid(line) {
				t.Errorf("invalid JSON line: %s", line)
			}
		}
	case CSV:
		if _, err := csv.NewReader(bytes.NewReader(out)).ReadAll(); err != nil {
			t.Errorf("invalid CSV: %v", err)
		}
	case Table, Wide, Markdown:
		for _, r := range string(out) {
			if r == 0x1b || r == '\u202e' {
				t.Errorf("control character %U in %q", r, out)
			}
		}
		if f != Markdown {
			for line := range strings.Lines(string(out)) {
				if strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
					t.Errorf("blanks at the end of %q", line)
				}
			}
			break
		}
		if strings.Contains(string(out), "<script>") || strings.Contains(string(out), "@everyone") {
			t.Errorf("unescaped text in %s", out)
		}
	}
}

func TestTerminalStyle(t *testing.T) {
	var b bytes.Buffer
	s := &Stream{Writer: &b, Style: Style{Colour: true, Unicode: true, Width: 100}}
	if err := WriteAudit(s, Table, fixtureMeta(), fixtureSeries(), fixtureAudit()); err != nil {
		t.Fatal(err)
	}
	d, m := fixtureDevices()
	if err := WriteDevices(s, Table, d, m); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "terminal", b.String())
}

func TestTerminalStyleFollowsEnvironment(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  map[string]string
		want Style
	}{
		{"full", map[string]string{"TERM": "xterm-256color", "LANG": "en_GB.UTF-8"},
			Style{Colour: true, Unicode: true, Live: true, Width: 120}},
		{"no colour", map[string]string{"TERM": "xterm", "NO_COLOR": "1", "LANG": "C.utf8"}, Style{Unicode: true, Live: true, Width: 120}},
		{"dumb", map[string]string{"TERM": "dumb", "LANG": "en_GB.UTF-8"}, Style{Width: 120}},
		{"LC_ALL beats LANG", map[string]string{"TERM": "xterm", "LC_ALL": "C", "LANG": "en_GB.UTF-8"},
			Style{Colour: true, Live: true, Width: 120}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := terminalStyle(120, func(k string) string { return tc.env[k] }); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
	if got := NewStream(&bytes.Buffer{}, func(string) string { return "xterm" }).Style; got != (Style{}) {
		t.Errorf("a buffer got the style %+v", got)
	}
	columns := func(k string) string {
		return map[string]string{"COLUMNS": "140", "LANG": "C.UTF-8", "TERM": "xterm"}[k]
	}
	if got := NewStream(&bytes.Buffer{}, columns).Style; got != (Style{Width: 140}) {
		t.Errorf("with COLUMNS a buffer got the style %+v", got)
	}
}

// benchfmt must read every sample with its units, its configuration and a name with separable parts.
func TestBenchIsReadByBenchfmt(t *testing.T) {
	var b bytes.Buffer
	series := fixtureSeries()
	series[0].Rows[0].Case.Kernel = "a b/c=d"
	if err := WriteBench(&b, fixtureMeta(), series); err != nil {
		t.Fatal(err)
	}
	reader := benchfmt.NewReader(&b, "bench")
	lines := 0
	for reader.Scan() {
		switch rec := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Fatalf("syntax error: %v", rec)
		case *benchfmt.Result:
			lines++
			if cpu := rec.GetConfig("cpu"); cpu != "INTEL(R) XEON(R) PLATINUM 8592+" {
				t.Errorf("cpu is %q", cpu)
			}
			if _, ok := rec.Value("sec/op"); !ok {
				t.Errorf("no sec/op in %v", rec.Values)
			}
			if mfu, ok := rec.Value("MFU"); !ok || mfu <= 0 || mfu > 1 {
				t.Errorf("MFU is %v", mfu)
			}
			if rec.Iters != 4 {
				t.Errorf("%d iterations, want the block's 4 launches", rec.Iters)
			}
			base, parts := rec.Name.Parts()
			if string(base) != "Gemm" || len(parts) != 7 {
				t.Errorf("name %s has the parts %q", rec.Name, parts)
			}
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	if lines != 21 {
		t.Errorf("%d lines, want one for each of 21 samples", lines)
	}
	if better := reader.Units().Get("MFU", "better"); better == nil || better.Value != "higher" {
		t.Errorf("MFU's better is %v", better)
	}
}

// benchstat compares two files only under equal configurations, so values that vary per run, or that users
// compare, must not be configuration.
func TestBenchComparesRuns(t *testing.T) {
	config := func(meta results.Meta) map[string]string {
		t.Helper()
		var b bytes.Buffer
		if err := WriteBench(&b, meta, fixtureSeries()); err != nil {
			t.Fatal(err)
		}
		reader := benchfmt.NewReader(&b, "bench")
		for reader.Scan() {
			rec, ok := reader.Result().(*benchfmt.Result)
			if !ok {
				continue // a unit
			}
			all := map[string]string{}
			for _, c := range rec.Config {
				if c.File {
					all[c.Key] = string(c.Value)
				}
			}
			return all
		}
		t.Fatal("no line")
		return nil
	}
	a, b := fixtureMeta(), fixtureMeta()
	b.Gemmaudit, b.Seed = "0.2.0", 7
	for id, c := range b.Ceilings {
		c.Peaks = slices.Clone(c.Peaks)
		for i := range c.Peaks {
			c.Peaks[i].FLOPS *= 1.01
		}
		b.Ceilings[id] = c
	}
	if diff := cmp.Diff(config(a), config(b)); diff != "" {
		t.Errorf("configurations differ (-a +b):\n%s", diff)
	}
	b.Fingerprint.CPUModel = "another"
	if cmp.Equal(config(a), config(b)) {
		t.Error("another CPU has the same configuration")
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range Formats() {
		if got, err := ParseFormat(strings.ToUpper(string(f))); err != nil || got != f {
			t.Errorf("ParseFormat(%q) = %q, %v", f, got, err)
		}
	}
	_, err := ParseFormat("xml")
	if err == nil || !strings.Contains(err.Error(), `"xml"`) ||
		!strings.Contains(err.Error(), "table, wide, json, jsonl, csv, markdown, bench") {
		t.Errorf("error of an unknown format: %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteErrorsAreReturned(t *testing.T) {
	for name, write := range documents() {
		for _, f := range Formats() {
			var unsupported *UnsupportedFormat
			if err := write(brokenWriter{}, f); err == nil {
				t.Errorf("%s as %s: no error from a broken writer", name, f)
			} else if !strings.Contains(err.Error(), "disk full") && !errors.As(err, &unsupported) {
				t.Errorf("%s as %s: %v", name, f, err)
			}
		}
	}
}

func TestEmptyDocuments(t *testing.T) {
	for name, write := range map[string]func(io.Writer, Format) error{
		"devices": func(w io.Writer, f Format) error { return WriteDevices(w, f, nil, nil) },
		"medians": func(w io.Writer, f Format) error { return WriteMedians(w, f, results.Meta{}, nil, nil) },
		"audit":   func(w io.Writer, f Format) error { return WriteAudit(w, f, results.Meta{}, nil, &rules.Audit{}) },
		"splits":  func(w io.Writer, f Format) error { return WriteSplits(w, f, results.Meta{}, &remedy.Result{}) },
		"doctor":  func(w io.Writer, f Format) error { return WriteDoctor(w, f, nil) },
		"plan":    func(w io.Writer, f Format) error { return WritePlan(w, f, &Plan{}) },
		"diff":    func(w io.Writer, f Format) error { return WriteDiff(w, f, &diff.Result{}, nil) },
	} {
		for _, f := range Formats() {
			var b bytes.Buffer
			var unsupported *UnsupportedFormat
			if err := write(&b, f); err != nil && !errors.As(err, &unsupported) {
				t.Errorf("%s as %s: %v", name, f, err)
			}
			if strings.Contains(b.String(), "null") && name != "audit" && name != "splits" && name != "plan" && name != "diff" {
				t.Errorf("%s as %s holds a null: %s", name, f, b.String())
			}
		}
	}
}

func TestDoctorBeginsWithTheResolution(t *testing.T) {
	for level, want := range map[string]string{"warning": "differences below 36 % (2 warnings)", "ok": "1 warning"} {
		var b bytes.Buffer
		found := []Health{{Name: "turbo", Level: "warning", Found: "on"},
			{Name: "resolution", Level: level, Found: "differences below 36 %", Consequence: true}}
		if err := WriteDoctor(&b, Table, found); err != nil || !strings.HasSuffix(strings.TrimSpace(b.String()), "\n"+want) {
			t.Errorf("%s: %q, %v; want the last line %q", level, b.String(), err, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{formatMicros(1716.7), "1716.7"}, {formatMicros(23.456), "23.46"}, {formatMicros(8.1234), "8.123"},
		{formatMicros(2.5e6), "2500000"},
		{formatRate(1.39e12, "FLOP/s"), "1.390 TFLOP/s"}, {formatRate(28.06e9, "B/s"), "28.06 GB/s"}, {formatRate(0, "B/s"), ""},
		{FormatShare(0.00458), "0.46 %"}, {FormatShare(0.8812), "88.1 %"}, {FormatShare(0.0001), "0.010 %"}, {FormatShare(0), "0.0 %"},
		{Bytes(48 << 10), "48 KiB"}, {Bytes(320 << 20), "320 MiB"}, {Bytes(1536 << 20), "1.5 GiB"},
		{Duration(74 * time.Second), "1m 14s"}, {Duration(8 * time.Hour), "8h 00m"}, {Duration(3200 * time.Millisecond), "3.2 s"},
		{Duration(59600 * time.Millisecond), "1m 00s"},
		{Count(1, "row"), "1 row"}, {Count(0, "row"), "0 rows"}, {Count(2, "series"), "2 series"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

func TestFileName(t *testing.T) {
	for in, want := range map[string]string{
		"cuda:0/cublas/fp16 n14336 k4096": "cuda-0-cublas-fp16-n14336-k4096", "../../etc/passwd": "etc-passwd", "": "unnamed",
		"...": "unnamed", "a\x00b": "ab",
	} {
		if got := fileName(in); got != want {
			t.Errorf("fileName(%q) = %q, want %q", in, got, want)
		}
	}
	if n := len(fileName(strings.Repeat("kernel<", 100))); n > 100 {
		t.Errorf("a name of %d characters", n)
	}
}

func TestDisturbancesAreMentioned(t *testing.T) {
	series := fixtureSeries()
	if notes := disturbanceNotes(series); notes != nil {
		t.Errorf("undisturbed: %v", notes)
	}
	series[0].Rows[0].Samples[0].Disturbance = "preempted once"
	if notes := disturbanceNotes(series); notes != nil {
		t.Errorf("one of 21 samples: %v", notes)
	}
	series[0].Rows[1].Samples[2].Disturbance = "stolen 12 ms, preempted 3 times"
	notes := disturbanceNotes(series)
	if want := "2 of 21 samples (9.5 %) carry a disturbance: preempted 2, stolen 1"; len(notes) != 1 || notes[0].Text != want {
		t.Errorf("%v, want %q", notes, want)
	}
}

func TestDriftText(t *testing.T) {
	for _, c := range []struct {
		audit rules.Audit
		want  string
	}{
		{rules.Audit{Method: "interval"}, "drift of the sentinels unknown"},
		{rules.Audit{Method: "interval", Drift: 0.034}, "drift of the sentinels 3.4 %, within their noise and not corrected for"},
		{rules.Audit{Method: "interval", Drift: 4.468, Invalid: "too unsteady"}, "drift of the sentinels 446.8 %, not corrected for"},
		{rules.Audit{Method: "interval", Drift: 0.034, Corrected: true}, "drift of the sentinels 3.4 %, corrected for"},
		{rules.Audit{Method: rules.MethodArticle}, "drift of the sentinels not looked at"},
	} {
		if got := DriftText(&c.audit); got != c.want {
			t.Errorf("%+v: %q, want %q", c.audit, got, c.want)
		}
	}
}

// -o wide, CSV and the page must list the excluded causes of a finding without a cause. For a finding with a
// cause, only programs get them.
func TestExcludedCauses(t *testing.T) {
	meta, audit := fixtureMeta(), fixtureAudit()
	audit.Findings[0].Cause = cause.Unknown
	audit.Findings[0].Excluded = []cause.Exclusion{{Cause: cause.WaveQuantization, Why: "no wave begins behind m256"},
		{Cause: cause.Alignment, Why: "m320 is a multiple of 8"}}
	audit.Findings[2].Excluded = []cause.Exclusion{{Cause: cause.MemoryBound, Why: "memory allows more"}}
	const unknown = "not wave-quantization: no wave begins behind m256. not alignment: m320 is a multiple of 8"
	for f, want := range map[Format][2]bool{Table: {false, false}, Wide: {true, false}, Markdown: {false, false}, CSV: {true, true}} {
		var b strings.Builder
		if err := WriteAudit(&b, f, meta, nil, audit); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		if strings.Contains(text, unknown) != want[0] || strings.Contains(text, "not memory-bound: memory allows more") != want[1] {
			t.Errorf("%s, want %v:\n%s", f, want, &b)
		}
		if f != CSV && !strings.Contains(text, "unknown, 2 excluded") {
			t.Errorf("%s does not say how many causes were excluded:\n%s", f, &b)
		}
		if note := strings.Contains(text, "1 finding without a known cause: -o wide lists the excluded causes"); note != (f == Table) {
			t.Errorf("%s: a note is %v", f, note)
		}
	}
	var md strings.Builder
	p := newPage(Input{Meta: meta, Series: fixtureSeries(), Audit: audit}, nil)
	if err := p.markdown(&md, func(*Figure) string { return "" }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no wave begins behind m256", "memory-bound: " + cause.MemoryBound.Meaning()} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, &md)
		}
	}
	if strings.Contains(md.String(), "memory allows more") {
		t.Error("the page says what was excluded together with a cause")
	}
}

// Imported findings cannot be measured again here, and the article's method makes no tests.
func TestImportedFindings(t *testing.T) {
	meta, audit := fixtureMeta(), fixtureAudit()
	meta.Source, audit.Method = "torchgemm.csv", rules.MethodArticle
	audit.Findings[0].Cause = cause.Unknown
	for _, f := range []Format{Table, Wide, Markdown, CSV} {
		var b strings.Builder
		if err := WriteAudit(&b, f, meta, nil, audit); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "gemmaudit sweep") {
			t.Errorf("%s: a command:\n%s", f, &b)
		}
		if !strings.Contains(b.String(), "unknown") {
			t.Errorf("%s: the place of an unknown cause is empty:\n%s", f, &b)
		}
		if strings.Contains(b.String(), "0.0472") {
			t.Errorf("%s: a p-value:\n%s", f, &b)
		}
	}
	var md strings.Builder
	p := newPage(Input{Meta: meta, Series: fixtureSeries(), Audit: audit}, nil)
	if err := p.markdown(&md, func(*Figure) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(md.String(), "gemmaudit sweep") {
		t.Errorf("the page:\n%s", &md)
	}
}

func TestRatesOfIntegersAreNoFloats(t *testing.T) {
	if got := (rate{2e12, kernels.INT8}).Text(); got != "2.000 TOP/s" {
		t.Error(got)
	}
	if got := (rate{2e12, kernels.BF16}).Text(); got != "2.000 TFLOP/s" {
		t.Error(got)
	}
}

func TestSplitsSummary(t *testing.T) {
	row := func(executed, pays bool) remedy.Row {
		return remedy.Row{Remedy: rules.Remedy{Executed: executed, Pays: pays}}
	}
	for _, c := range []struct {
		splits remedy.Result
		want   string
	}{
		{remedy.Result{}, "no remedy is predicted to pay"},
		{remedy.Result{Splits: []remedy.Row{row(false, false)}}, "1 remedy predicted, none executed: candidates, not gains"},
		{remedy.Result{Splits: []remedy.Row{row(true, true)}, Rejected: []remedy.Row{row(true, false)}},
			"2 remedies predicted, 2 executed; of these 1 pays"},
		{remedy.Result{Splits: []remedy.Row{row(true, true)}, Untried: 60}, "61 remedies predicted, 1 executed; of these 1 pays"},
		{remedy.Result{Untried: 3}, "3 remedies predicted, none executed: candidates, not gains"},
	} {
		if got := SplitsSummary(&c.splits); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// An implausibly fast row must not show a loss, which would be negative.
func TestMeasurementErrorsLoseNothing(t *testing.T) {
	f := rules.Finding{Rule: rules.Roofline, Cause: cause.MeasurementError, Loss: stats.Interval{Lo: -0.5, Mid: -0.43, Hi: -0.4}}
	slow := rules.Finding{Rule: rules.Roofline, Cause: cause.MemoryBound, Loss: stats.Interval{Lo: 0.4, Mid: 0.43, Hi: 0.5}}
	var b strings.Builder
	if err := WriteAudit(&b, Table, fixtureMeta(), nil, &rules.Audit{Findings: []rules.Finding{f, slow}}); err != nil {
		t.Fatal(err)
	}
	if out := b.String(); strings.Contains(out, "-43") || !strings.Contains(out, "43.0 %") {
		t.Errorf("got\n%s", out)
	}
}
