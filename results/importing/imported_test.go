package importing

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/kernels"
)

type gemmRow struct {
	Framework string  `parquet:"framework"`
	Device    string  `parquet:"device"`
	Source    string  `parquet:"kernel_source,dict"`
	DType     string  `parquet:"gemm_dtype,dict"`
	M         int64   `parquet:"m"`
	N         int32   `parquet:"n"`
	K         int64   `parquet:"k"`
	Latency   float64 `parquet:"latency"`
	Power     *string `parquet:"power,optional"`
}

type moeRow struct {
	Device  string  `parquet:"device"`
	Source  string  `parquet:"kernel_source"`
	DType   string  `parquet:"moe_dtype"`
	Tokens  int64   `parquet:"num_tokens"`
	Latency float64 `parquet:"latency"`
}

func writeParquet[T any](t *testing.T, name string, rows []T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	must(t, err)
	w := parquet.NewGenericWriter[T](f, parquet.Compression(&parquet.Zstd))
	_, err = w.Write(rows)
	must(t, errors.Join(err, w.Close(), f.Close()))
	return path
}

func importText(t *testing.T, opt Options, paths ...string) ([]Imported, []string, error) {
	t.Helper()
	opt.LeaveOut = true
	r, err := Import(t.Context(), paths, filepath.Join(t.TempDir(), "run.db"), opt)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	series, err := r.Series()
	must(t, err)
	var out []string
	for _, s := range series {
		for _, row := range s.Rows {
			for _, sample := range row.Samples {
				out = append(out, fmt.Sprintf("%v round %d %.6g us", row.Case, sample.Round, sample.US))
			}
		}
	}
	return r.Files, out, nil
}

func TestImportParquetOfAIConfigurator(t *testing.T) {
	gemm := writeParquet(t, "gemm_perf.parquet", []gemmRow{
		{"TRTLLM", "NVIDIA B200", "torch_flow", "bfloat16", 256, 4096, 1024, 0.012, nil},
		{"TRTLLM", "NVIDIA B200", "deepgemm", "fp8_block", 256, 4096, 1024, 0.009, nil},
		{"TRTLLM", "NVIDIA B200", "torch_flow", "float16", 1, 64, 32, 0.5, nil},
	})
	files, samples, err := importText(t, Options{}, gemm)
	must(t, err)
	want := []string{"NVIDIA B200/deepgemm/fp8/m256 n4096 k1024 nk weights fp8 g128x128 fp32 round 0 9 us",
		"NVIDIA B200/torch_flow/bf16/m256 n4096 k1024 nk round 0 12 us",
		"NVIDIA B200/torch_flow/fp16/m1 n64 k32 nk round 0 500 us"}
	if d := cmp.Diff(want, samples); d != "" {
		t.Error(d)
	}
	if f := files[0]; f.Format != "aiconfigurator" || f.Rows != 3 || len(f.LeftOut) != 0 {
		t.Errorf("%+v", files)
	}
	moe := writeParquet(t, "moe_perf.parquet",
		[]moeRow{{"NVIDIA B200", "vllm", "bfloat16", 1, 0.1}, {"NVIDIA B200", "vllm", "bfloat16", 2, 0.1}})
	var nothing *NothingReadError
	if _, _, err := importText(t, Options{}, moe); !errors.As(err, &nothing) || nothing.Files[0].LeftOut[0].Rows != 2 {
		t.Errorf("%v, expected two rows left out", err)
	}
	if files, _, err = importText(t, Options{}, gemm, moe); err != nil || len(files) != 2 || files[1].Rows != 0 {
		t.Errorf("%+v, %v, expected the rows of one of two files", files, err)
	}
}

// Skipped lines are counted by reason, with the first line; no other line is lost.
func TestImportLeavesOut(t *testing.T) {
	path := writeFile(t, "s.csv",
		"device,kernel,dtype,m,n,k,round,us\nd,q,fp32,1,8,8,0,3\nd,q,fp32,x,8,8,0,3\nd,q,fp32,2,8,8,0,\nd,q,fp32,y,8,8,0,3\n"+
			"d,q,fp32,4,8,8,0,\"3\nd,q,fp32,5,8,8,0,3\n")
	files, samples, err := importText(t, Options{}, path)
	must(t, err)
	if len(samples) != 1 && len(samples) != 2 { // the quote may include the next line
		t.Errorf("samples %q", samples)
	}
	left := files[0].LeftOut
	if left[0].Rows != 2 || left[0].Line != 3 || left[1].Rows != 1 || left[1].Line != 4 {
		t.Errorf("%+v", left)
	}
	// A contradiction is a command line error even with lines left out.
	var e *Error
	if _, _, err := importText(t, Options{N: 9}, path); !errors.As(err, &e) {
		t.Errorf("%v, expected that --n contradicts the file", err)
	}
}

func TestImportReasonsAreBounded(t *testing.T) {
	var left []LeftOut
	for i := range 10 * mostReasons {
		left = countOut(left, i+1, fmt.Sprint("reason ", i))
	}
	rows := 0
	for _, l := range left {
		rows += l.Rows
	}
	if len(left) > mostReasons+1 || rows != 10*mostReasons {
		t.Errorf("%d reasons of %d rows", len(left), rows)
	}
}

func TestReadWorkload(t *testing.T) {
	const trace = `{"schemaVersion":1,"traceEvents":[
{"name":"aten::mm","args":{"Input Dims":[[16,64],[64,32]],"Input type":["float","float"]}},
{"name":"aten::mm","args":{"Input Dims":[[16,64],[64,32]],"Input type":["float","float"]}},
{"name":"aten::mm","args":{}}]}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(trace))
	must(t, errors.Join(err, z.Close()))
	linear := kernels.Product(kernels.FP32, 32, 64)
	linear.Layout = kernels.Transposed
	untyped := kernels.Product("", 32, 64)
	untyped.Layout = kernels.Transposed
	for _, tt := range []struct {
		name, text, format string
		want               []Shape
		left               int
	}{
		{"trace.json", trace, "pytorch-trace", []Shape{{linear, 16, 2}}, 1},
		{"trace.json.gz", zipped.String(), "pytorch-trace", []Shape{{linear, 16, 2}}, 1},
		{"untuned.csv", "GemmTunableOp_float_TN,tn_32_16_64_ld_64_64_32\n", "tunableop-untuned", []Shape{{linear, 16, 1}}, 0},
		{"samples.csv", "m,n,k,dtype,layout,us\n16,32,64,fp32,nk,3\n16,32,64,fp32,nk,4\n", "shapes", []Shape{{linear, 16, 2}}, 0},
		{"calls.csv", "m,n,k,calls\n16,32,64,5\n16,32,64,0\n", "shapes", []Shape{{untyped, 16, 5}}, 1},
	} {
		w, err := ReadWorkload(writeFile(t, tt.name, tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		left := 0
		for _, l := range w.LeftOut {
			left += l.Rows
		}
		if d := cmp.Diff(tt.want, w.Shapes); d != "" || w.Format != tt.format || left != tt.left {
			t.Errorf("%s: %s, %d left out:\n%s", tt.name, w.Format, left, d)
		}
	}
	var e *Error
	if _, err := ReadWorkload(writeFile(t, "poem.txt", "Shall I compare thee\n")); !errors.As(err, &e) {
		t.Errorf("%v, expected an Error", err)
	}
}

// A prefix must not change what a published name gives.
func TestFromNameWithPrefix(t *testing.T) {
	const torch, marlin = "torchgemm_NVIDIA_A800_80GB_PCIe_torch_2.5.1+cu124_K4096_N4096_bfloat16.csv", publishedMarlin
	for _, prefix := range []string{"copy of ", "2024-05-01_", "my_run_", "a.b-"} {
		for _, name := range []string{torch, marlin} {
			if d := cmp.Diff(fromName(name).Options, fromName(prefix+name).Options); d != "" {
				t.Errorf("%s%s:\n%s", prefix, name, d)
			}
		}
	}
}
