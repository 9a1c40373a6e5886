package importing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/published"
)

const publishedMarlin = "Marlin_NVIDIA_A800_80GB_PCIe_vllm_0.6.5_K4096_N28672_dtype_gptq_int8.csv"

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func flagged(s results.Series, threshold float64) int {
	best, n := 0.0, 0
	for _, row := range s.Rows {
		rate := row.Case.FLOPs() / row.Samples[0].US
		if best*threshold > rate {
			n++
		}
		best = max(best, rate)
	}
	return n
}

func TestImportPublishedSweeps(t *testing.T) {
	dir := published.Folder(t)
	for _, tt := range []struct {
		file             string
		key              results.SeriesKey
		rows             int
		flagged90, at85  int
		peak             float64
		firstLabelPrefix string
	}{
		{published.RTX4090, results.SeriesKey{Device: "NVIDIA GeForce RTX 4090", Kernel: "torch",
			Subject: kernels.Product(kernels.FP16, 14336, 4096)}, 8197, 3021, 2882, 166e12, "std::enable_if<!(false), void>"},
		{published.A800, results.SeriesKey{Device: "NVIDIA A800 80GB PCIe", Kernel: "torch",
			Subject: kernels.Product(kernels.BF16, 4096, 4096)}, 517, 322, 287, 312e12, "ampere_bf16"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			r, err := Import(context.Background(), []string{filepath.Join(dir, tt.file)}, filepath.Join(t.TempDir(), "run.db"),
				Options{})
			must(t, err)
			defer r.Close()
			series, err := r.Series()
			must(t, err)
			if len(series) != 1 || series[0].Key != tt.key {
				t.Fatalf("%d series, the first %+v", len(series), series[0].Key)
			}
			s := series[0]
			if len(s.Rows) != tt.rows {
				t.Errorf("%d rows, expected %d", len(s.Rows), tt.rows)
			}
			if n := flagged(s, 0.9); n != tt.flagged90 {
				t.Errorf("the article's rule flags %d rows at 0.9, expected %d", n, tt.flagged90)
			}
			if n := flagged(s, 0.85); n != tt.at85 {
				t.Errorf("the article's rule flags %d rows at 0.85, expected %d", n, tt.at85)
			}
			if s.Peak.Origin != kernels.Published || s.Peak.FLOPS < tt.peak*0.9999 || s.Peak.FLOPS > tt.peak*1.0001 {
				t.Errorf("peak %+v, expected %g within 1e-4", s.Peak, tt.peak)
			}
			if !strings.HasPrefix(s.Rows[0].Case.Label, tt.firstLabelPrefix) {
				t.Errorf("label %q", s.Rows[0].Case.Label)
			}
			if !r.Files[0].LayoutAssumed {
				t.Error("the assumed layout is not noted")
			}
			if d := cmp.Diff(map[string]string{"torch": "2.5.1+cu124", "cuda": "12.4"}, r.Meta().Fingerprint.Devices[0].Versions); d != "" {
				t.Errorf("versions:\n%s", d)
			}
			if len(r.Warnings()) > 0 {
				t.Errorf("warnings %q", r.Warnings())
			}
		})
	}
}

func TestImportPublishedVariants(t *testing.T) {
	text := "\ufeffBatch,KERNEL_TIME,extra\r\n4,10.5,x\r\n4,11.5,y\r\n2,\"9.25\",z\r\n"
	path := writeFile(t, "sweep.csv", text)
	_, err := Import(context.Background(), []string{path}, filepath.Join(t.TempDir(), "run.db"), Options{})
	var e *Error
	if !errors.As(err, &e) || e.Hint != "give --device-name --kernel --dtype --n --k" {
		t.Fatalf("%v, expected an error that names all flags", err)
	}
	out := filepath.Join(t.TempDir(), "run.db")
	r, err := Import(context.Background(), []string{path}, out, Options{
		Device: "card", Kernel: "lib", DType: kernels.INT8, N: 8, K: 16, Library: "lib 1.2", Regime: results.Hot,
	})
	must(t, err)
	defer r.Close()
	samples, err := r.Samples(results.PhaseSweep)
	must(t, err)
	var lines []string
	for _, s := range samples {
		lines = append(lines, fmt.Sprint(s.CaseID, s.Round, s.Seq, s.US))
	}
	if d := cmp.Diff([]string{"1 0 0 10.5", "1 1 1 11.5", "2 0 2 9.25"}, lines); d != "" {
		t.Errorf("samples:\n%s", d)
	}
	series, err := r.Series()
	must(t, err)
	if s := series[0]; s.Key.String() != "card/lib/int8/n8 k16 hot" || s.Peak.Origin != kernels.Relative || s.Peak.FLOPS != 0 ||
		s.Rows[0].Case.M != 2 {
		t.Errorf("series %v, peak %+v", s.Key, s.Peak)
	}
	if w := r.Warnings(); len(w) != 1 || !strings.Contains(w[0], `ignored columns "extra"`) {
		t.Errorf("warnings %q", w)
	}
	if of := r.Files; len(of) != 1 || of[0].Repeated != 1 || of[0].LayoutAssumed {
		t.Errorf("imported %+v", of)
	}
	if got := r.Meta().Fingerprint.Devices[0].Versions["lib"]; got != "1.2" {
		t.Errorf("library version %q", got)
	}
	if r.Meta().Source != path {
		t.Errorf("source %q", r.Meta().Source)
	}
}

func TestImportRefuses(t *testing.T) {
	const head = "device,kernel,dtype,m,n,k,round,us,clock_mhz\n"
	good := "cpu,lib,fp32,4,8,16,0,1.5,\n"
	foreign := func(form string) string {
		return ": the file is " + form + ", expected a CSV: a published sweep (columns batch and kernel_time) or samples (columns m and us)"
	}
	for _, tt := range []struct {
		name, text string
		want       string // of the error, after the path
	}{
		{"empty", "", ": the file is empty"},
		{"only a header", head, ": there is no line after the header"},
		{"foreign header", "a,b\n1,2\n",
			`:1: the header is "a,b", expected columns batch and kernel_time (a published sweep) or m and us (a samples CSV)`},
		{"double column", "m,us,m\n", `:1: column "m" stands twice in the header, at 1 and 3`},
		{"column missing", "device,kernel,dtype,m,n,round,us\n", ":1: there is no column k"},
		{"missing cell", head + good + "cpu,lib,fp32,8,8,16,0\n", `:3: column us: the cell is missing`},
		{"empty cell", head + good + "cpu,lib,fp32,,8,16,0,1,\n", `:3: column m: the cell is missing`},
		{"empty device", head + ",lib,fp32,4,8,16,0,1,\n", `:2: column device: the cell is missing`},
		{"too many cells", head + "cpu,lib,fp32,4,8,16,0,1,1,1\n", ":2: 10 cells, the header has 9 columns"},
		{"not a number", head + "cpu,lib,fp32,4,8,16,0,fast,\n", `:2: column us: "fast" is not a number`},
		{"nan", head + "cpu,lib,fp32,4,8,16,0,NaN,\n", `:2: column us: "NaN" is not a finite number`},
		{"inf", head + "cpu,lib,fp32,4,8,16,0,1e999,\n", `:2: column us: "1e999" is not a finite number`},
		{"negative time", head + "cpu,lib,fp32,4,8,16,0,-1,\n", `:2: column us: "-1" is negative`},
		{"zero time", head + "cpu,lib,fp32,4,8,16,0,0.0,\n", `:2: column us: "0.0" is not a time: expected 1e-06 to 1e+15 us`},
		{"time of no launch", head + "cpu,lib,fp32,4,8,16,0,5e-324,\n",
			`:2: column us: "5e-324" is not a time: expected 1e-06 to 1e+15 us`},
		{"time of no lifetime", head + "cpu,lib,fp32,4,8,16,0,1e308,\n",
			`:2: column us: "1e308" is not a time: expected 1e-06 to 1e+15 us`},
		{"long name", head + strings.Repeat("c", 4097) + ",lib,fp32,4,8,16,0,1,\n", `:2: column device: 4097 bytes, expected at most 4096`},
		{"bad clock", head + "cpu,lib,fp32,4,8,16,0,1,x\n", `:2: column clock_mhz: "x" is not a number`},
		{"m 0", head + "cpu,lib,fp32,0,8,16,0,1,\n", `:2: column m: "0" is below 1`},
		{"m 1.5", head + "cpu,lib,fp32,1.5,8,16,0,1,\n", `:2: column m: "1.5" is not a whole number`},
		{"m huge", head + "cpu,lib,fp32,4294967296,8,16,0,1,\n", `:2: column m: "4294967296" is above 2147483648`},
		{"dtype", head + "cpu,lib,fp12,4,8,16,0,1,\n",
			`:2: column dtype: "fp12" is not a data type: expected one of [fp32 tf32 fp16 bf16 fp8 int8]`},
		{"duplicate", head + good + "cpu,lib,fp32,8,8,16,0,1,\n" + good, `:4: column round: "0" of cpu/lib/fp32/m4 n8 k16 repeats line 2`},
		{"control character", head + "c\x07pu,lib,fp32,4,8,16,0,1,\n", `:2: column device: "c\apu" has a control character`},
		{"quote", head + "\"cpu,lib,fp32,4,8,16,0,1,\n", `:2: extraneous or missing " in quoted-field`},
		{"parquet", "PAR1\x15\x04\x15", foreign("Parquet")},
		{"json", " [{\"m\": 1}]", foreign("JSON")},
		{"json lines", "\ufeff{\"m\": 1}\n", foreign("JSON or JSON lines")},
		{"gzip", "\x1f\x8b\x08\x00", foreign("compressed by gzip")},
		{"spreadsheet", "PK\x03\x04\x14", foreign("a zip archive, such as a spreadsheet")},
		{"binary", "\x7fELF\x02\x01\x01\x00\x00", foreign("binary")},
		{"m 0 published", "batch,kernel_time\n0,1\n", `:2: column batch: "0" is below 1`},
		{"utils nan", "batch,kernel_time,flops,utils\n1,1,1,nan\n", `:2: column utils: "nan" is not a finite number`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := writeFile(t, "torchgemm_card_torch_2.5_K16_N8_float16.csv", tt.text)
			out := filepath.Join(t.TempDir(), "run.db")
			_, err := Import(context.Background(), []string{path}, out, Options{})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%v, expected an Error", err)
			}
			if got := strings.TrimPrefix(err.Error(), path); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
			if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) > 0 {
				t.Errorf("a refused import left %v", entries)
			}
		})
	}
}

// endless is a file without lines, like a device.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	e.read += len(b)
	if e.read > 8*maxRecordBytes {
		return 0, errors.New("read on and on")
	}
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestImportBoundsLines(t *testing.T) {
	const header = "device,kernel,dtype,m,n,k,round,us\n"
	for name, tt := range map[string]struct{ before, want string }{
		"header": {"", "x.csv:1: a line of more than"},
		"cell":   {header + "d,k,fp32,1,2,3,0,1.5\n", "x.csv:3: a line of more than"},
		"quoted": {header + "\"", "x.csv:2: a line of more than"},
	} {
		err := readInto(t, io.MultiReader(strings.NewReader(tt.before), &endless{}))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, expected %q", name, err, tt.want)
		}
	}
	// Many lines are not a long line.
	lines := strings.Builder{}
	lines.WriteString(header)
	for i := range 2 * maxRecordBytes / 20 {
		fmt.Fprintf(&lines, "d,k,fp32,%d,2,3,0,1.5\n", i+1)
	}
	if err := readInto(t, strings.NewReader(lines.String())); err != nil {
		t.Error(err)
	}
}

// readInto reads x.csv from in into a run that is thrown away.
func readInto(t *testing.T, in io.Reader) error {
	r, err := results.Build(t.Context(), filepath.Join(t.TempDir(), "run.db"), func(w *results.Writer) error {
		p := newParsed()
		p.store.w = w
		if err := p.read(t.Context(), "x.csv", in, Options{}); err != nil {
			return err
		}
		return w.Meta(p.meta([]string{"x.csv"}, Options{}))
	})
	if err != nil {
		return err
	}
	return r.Close()
}

func TestImportKeepsWhatIsThere(t *testing.T) {
	path := writeFile(t, "s.csv", "device,kernel,dtype,m,n,k,round,us\ncpu,lib,fp32,4,8,16,0,1.5\n")
	out := writeFile(t, "run.db", "mine")
	if _, err := Import(context.Background(), []string{path}, out, Options{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v, expected that the file exists", err)
	}
	if b, _ := os.ReadFile(out); string(b) != "mine" {
		t.Errorf("the file in the way became %q", b)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out = filepath.Join(t.TempDir(), "run.db")
	if _, err := Import(ctx, []string{path}, out, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected that the import was cancelled", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) > 0 {
		t.Errorf("a cancelled import left %v", entries)
	}
}

// Flags that contradict a column or the file's name.
func TestImportFlagsAgainstTheFile(t *testing.T) {
	const text = "device,kernel,dtype,m,n,k,round,us,regime\nd,q,float32,1,64,32,0,3,hot\nd,q,fp32,2,64,32,0,3,\n"
	for _, tt := range []struct {
		opt  Options
		want string
	}{
		{Options{N: 64, K: 32, DType: kernels.FP32, Device: "d", Kernel: "q", Regime: results.Hot}, ""},
		{Options{N: 128}, `s.csv:2: column n: "64" is not the 128 of --n`},
		{Options{K: 77}, `s.csv:2: column k: "32" is not the 77 of --k`},
		{Options{DType: kernels.BF16}, `s.csv:2: column dtype: "float32" is not the bf16 of --dtype`},
		{Options{Regime: results.Cold}, `s.csv:2: column regime: "hot" is not the cold of --regime`},
	} {
		r, err := Import(context.Background(), []string{writeFile(t, "s.csv", text)}, filepath.Join(t.TempDir(), "run.db"), tt.opt)
		if err == nil {
			if w := r.Warnings(); len(w) > 0 {
				t.Errorf("%+v: warnings %q", tt.opt, w)
			}
			r.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, expected %q", tt.opt, err, tt.want)
		}
	}
	for _, tt := range []struct {
		name, text string
		opt        Options
		want       []string
	}{
		{"s.csv", text, Options{Device: "EPYC", Kernel: "mkl"},
			[]string{`column device is overruled: every row is of "EPYC"`, `column kernel is overruled: every row is of "mkl"`}},
		{"x_K16_N8_float16.csv", "batch,kernel_time\n1,3\n", Options{Device: "d", Kernel: "q", N: 8, K: 32, DType: kernels.BF16},
			[]string{"the dtype in the name of the file, fp16, is overruled: bf16", "the K in the name of the file, 16, is overruled: 32"}},
	} {
		path := writeFile(t, tt.name, tt.text)
		r, err := Import(context.Background(), []string{path}, filepath.Join(t.TempDir(), "run.db"), tt.opt)
		must(t, err)
		for i := range tt.want {
			tt.want[i] = path + ": " + tt.want[i]
		}
		if d := cmp.Diff(tt.want, r.Warnings()); d != "" {
			t.Errorf("%s: warnings:\n%s", tt.name, d)
		}
		r.Close()
	}
}

func TestFromName(t *testing.T) {
	for _, tt := range []struct {
		name string
		want Options
	}{
		{published.RTX4090, Options{Device: "NVIDIA GeForce RTX 4090", Kernel: "torch", DType: kernels.FP16, N: 14336, K: 4096,
			Library: "torch 2.5.1+cu124"}},
		{published.A800, Options{Device: "NVIDIA A800 80GB PCIe", Kernel: "torch", DType: kernels.BF16, N: 4096, K: 4096,
			Library: "torch 2.5.1+cu124"}},
		{"torchgemm_NVIDIA_A800_80GB_PCIe_torch_2.5.1+cu124_K4096_N28672_dtype_float16.csv",
			Options{Device: "NVIDIA A800 80GB PCIe", Kernel: "torch", DType: kernels.FP16, N: 28672, K: 4096,
				Library: "torch 2.5.1+cu124"}},

		// The kernel's name includes the quantization; the data type is the activations'.
		{publishedMarlin,
			Options{Device: "NVIDIA A800 80GB PCIe", Kernel: "marlin-gptq-int8", N: 28672, K: 4096, Library: "vllm 0.6.5"}},
		{"Marlin_NVIDIA_H100_80GB_HBM3_vllm_0.6.5_K8192_N1024_gptq_int4.csv",
			Options{Device: "NVIDIA H100 80GB HBM3", Kernel: "marlin-gptq-int4", N: 1024, K: 8192, Library: "vllm 0.6.5"}},
		{"Marlin_NVIDIA_L40S_vllm_0.6.5_K4096_N4096_bfloat16_dtype_AWQ_int4.csv",
			Options{Device: "NVIDIA L40S", Kernel: "marlin-awq-int4", DType: kernels.BF16, N: 4096, K: 4096, Library: "vllm 0.6.5"}},
		{"machetegemm_NVIDIA_H100_vllm_0.7.0+cu121_K4096_N4096_dtypegptq_int4.csv",
			Options{Device: "NVIDIA H100", Kernel: "machete-gptq-int4", N: 4096, K: 4096, Library: "vllm 0.7.0+cu121"}},
		{"cutlassgemm_NVIDIA_A800_cutlass_3.5_K64_N64_dtype_int8.csv",
			Options{Device: "NVIDIA A800", Kernel: "cutlass", DType: kernels.INT8, N: 64, K: 64, Library: "cutlass 3.5"}},
		{"sgemm_AMD_EPYC_9654_96-Core_openblas_0.3.28_K64_N64_float32.csv",
			Options{Device: "AMD EPYC 9654 96-Core", Kernel: "sgemm", DType: kernels.FP32, N: 64, K: 64, Library: "openblas 0.3.28"}},

		{"sweep_K128_N256.csv", Options{N: 256, K: 128}},
		{"bf16_N8_K9.csv", Options{DType: kernels.BF16, N: 8, K: 9}},
		{"K5.csv", Options{}},
		{"", Options{}},

		// A similar name gives only the parts that match.
		{"_K4_N4_.csv", Options{N: 4, K: 4}},
		{"Marlin_NVIDIA_A800_vllm_K64_N64_dtype_gptq_int8.csv", Options{N: 64, K: 64}}, // no version
		{"Marlin_vllm_0.6.5_K64_N64_dtype_gptq_int8.csv", Options{N: 64, K: 64}},       // no device
		// a device without letters
		{"Marlin____vllm_0.6.5_K64_N64.csv", Options{Kernel: "marlin", N: 64, K: 64, Library: "vllm 0.6.5"}},
		{"_card_vllm_0.6.5_K64_N64_float16.csv", Options{DType: kernels.FP16, N: 64, K: 64}}, // no kernel
		{"Marlin_card_vllm_0.6.5_K_N64_gptq_int8.csv", Options{N: 64}},                       // no K
		{"Marlin_card_vllm_0.6.5_K-4_N+4_gptq_int8.csv", Options{}},                          // no sizes
		{"Marlin_card_vllm_0.6.5_K0_N00_gptq_int8.csv", Options{Device: "card", Kernel: "marlin-gptq-int8", Library: "vllm 0.6.5"}},
		{"Marlin_card_vllm_0.6.5_K99999999999999999999_N4.csv",
			Options{Device: "card", Kernel: "marlin", N: 4, Library: "vllm 0.6.5"}},
		{"Marlin_card_vllm_0.6.5_K4_N4_gptq_int3.csv", Options{Device: "card", Kernel: "marlin", N: 4, K: 4, Library: "vllm 0.6.5"}},
		{"Marlin_card_vllm_0.6.5_K4_N4_xgptq_int8.csv",
			Options{Device: "card", Kernel: "marlin", DType: kernels.INT8, N: 4, K: 4, Library: "vllm 0.6.5"}},
		{"Marlin_RTX_4090_K4_N4_float16.csv", Options{DType: kernels.FP16, N: 4, K: 4}}, // a device is not a library
		{"Marlin_c\x1b[31mard_vllm_0.6.5_K4_N4_gptq_int8.csv", Options{}},
		{"Marlin_c\xffard_vllm_0.6.5_K4_N4_gptq_int8.csv", Options{}},
		{"Marlin_c\nard_vllm_0.6.5_K4_N4_gptq_int8.csv", Options{}},
		{strings.Repeat("Marlin_", 4000) + "vllm_0.6.5_K4_N4_gptq_int8.csv",
			Options{Device: strings.TrimSpace(strings.Repeat("Marlin ", 3999)), Kernel: "marlin-gptq-int8", N: 4, K: 4,
				Library: "vllm 0.6.5"}},
	} {
		got := fromName("/some/where/" + tt.name).Options
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%q:\n%s", tt.name, d)
		}
	}
}

// The name gives everything but the activations' data type.
func TestImportQuantizedWeights(t *testing.T) {
	const text = "batch,kernel_time,flops,utils\n1,80.84,2.91,0.00933\n64,98.2,153.08,0.49064\n68,180.45,88.51,0.28369\n"
	for _, tt := range []struct {
		name    string
		dtype   kernels.DType
		want    string
		assumes bool
	}{
		{publishedMarlin, "", "NVIDIA A800 80GB PCIe/marlin-gptq-int8/fp16/n28672 k4096 weights int8", true},
		{publishedMarlin, kernels.BF16, "NVIDIA A800 80GB PCIe/marlin-gptq-int8/bf16/n28672 k4096 weights int8", false},
		{strings.Replace(publishedMarlin, "_dtype", "_bfloat16", 1), "",
			"NVIDIA A800 80GB PCIe/marlin-gptq-int8/bf16/n28672 k4096 weights int8", false},
	} {
		r, err := Import(context.Background(), []string{writeFile(t, tt.name, text)}, filepath.Join(t.TempDir(), "run.db"),
			Options{DType: tt.dtype})
		must(t, err)
		series, err := r.Series()
		must(t, err)
		if len(series) != 1 || series[0].Key.String() != tt.want {
			t.Errorf("%s: %d series, the first %v, want %s", tt.name, len(series), series[0].Key, tt.want)
		}
		if got := series[0].Rows[1].Samples[0].Utils; got != 0.49064 {
			t.Errorf("%s: utils %v, want 0.49064", tt.name, got)
		}
		if p := series[0].Peak; p.FLOPS < 311.9e12 || p.FLOPS > 312.1e12 || p.Unit != "flops ÷ utils of the file, ±0.0043 %" {
			t.Errorf("%s: peak %+v, want 312 TFLOP/s", tt.name, p)
		}
		if got := r.Meta().Fingerprint.Devices[0].Versions["vllm"]; got != "0.6.5" {
			t.Errorf("%s: version of vllm %q", tt.name, got)
		}
		if w := r.Warnings(); len(w) > 1 || (len(w) == 1) != tt.assumes || tt.assumes && !strings.Contains(w[0], "taken as fp16") {
			t.Errorf("%s: warnings %q", tt.name, w)
		}
		r.Close()
	}
}

func TestPeakEstimateOfContradictingLines(t *testing.T) {
	e := &peakEstimate{}
	e.add(100, 0.5, 0, 1)
	e.add(400, 0.5, 0, 1)
	e.add(200, 0.5, 0, 1)
	e.flopsDecimals, e.utilDecimal = 6, 6
	p, ok := e.peak(kernels.FP16)
	if !ok || p.FLOPS != 400e12 || !strings.HasPrefix(p.Unit, "median") {
		t.Errorf("%+v %v, expected the median, 400 TFLOP/s", p, ok)
	}
}

func BenchmarkImport(b *testing.B) {
	path := filepath.Join(published.Folder(b), published.RTX4090)
	dir := b.TempDir()
	i := 0
	for b.Loop() {
		r, err := Import(context.Background(), []string{path}, filepath.Join(dir, fmt.Sprint(i)), Options{})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
		i++
	}
}

func FuzzImport(f *testing.F) {
	for _, s := range []string{
		"device,kernel,dtype,m,n,k,round,us\ncpu,lib,fp32,4,8,16,0,1.5\n",
		"\ufeffdevice,kernel,dtype,m,n,k,round,us,seq,parts,pad_to,launches,pack_inside,seed\r\n" +
			"cpu,lib,fp32,4,8,16,0,1.5,7,1+3,,2,true,5\r\n",
		"batch,kernel_time,flops,utils,kernel_name\n1,23.46,1.43,0.00458,a\n1,23,1,0.5,\"b,c\"\n",
		"batch,kernel_time\n0,1\n", "m,us\n", "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := writeFile(t, "torchgemm_card_torch_2.5_K16_N8_float16.csv", string(text))
		out := filepath.Join(t.TempDir(), "run.db")
		r, err := Import(context.Background(), []string{path}, out, Options{})
		if err != nil {
			if _, err := os.Stat(out); err == nil {
				t.Fatal("a refused import left a file")
			}
			return
		}
		defer r.Close()
		// Accepted data must be readable by everything.
		samples, err := r.Samples("")
		must(t, err)
		if len(samples) == 0 {
			t.Fatal("an import without samples was accepted")
		}
		_, err = r.Series()
		must(t, err)
	})
}

// Names that a Parquet file must refuse with the same message: see package parquet.
func TestNames(t *testing.T) {
	const header = "device,kernel,dtype,m,n,k,us,round"
	for _, tt := range []struct{ csv, want string }{
		{header + ",m\ncpu,blas,fp32,1,64,64,10,0,1\n", `column "m" stands twice in the header, at 4 and 9`},
		{header + ",M\ncpu,blas,fp32,1,64,64,10,0,1\n", `column "m" stands twice in the header, at 4 and 9`},
		{header + "\ncpu,b\xfflas,fp32,1,64,64,10,0\n", "is not UTF-8 text"},
		{header + "\ncpu,b\x1blas,fp32,1,64,64,10,0\n", "has a control character"},
		{header + "\ncpu," + strings.Repeat("x", results.MaxText+1) + ",fp32,1,64,64,10,0\n", "4097 bytes, expected at most 4096"},
	} {
		_, err := Import(context.Background(), []string{writeFile(t, "x.csv", tt.csv)}, filepath.Join(t.TempDir(), "run.db"),
			Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60q: %v, want %q", tt.csv, err, tt.want)
		}
	}
}
