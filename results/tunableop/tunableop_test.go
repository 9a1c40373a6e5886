package tunableop

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/results/table"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var one = table.Attributes{ID: 66, Tile: 20, Stages: 36, SplitK: 1, Swizzle: 1, Cluster: 3}

const oneName = "Gemm_Cublaslt_id_66_tile_20_stages_36_splitk_1_red_0_swizzle_1_custom_0_inner_0_cluster_3"

func product(layout, dtype string, n, k int) table.Product {
	return table.Product{DType: dtype, Layout: layout, N: n, K: k}
}

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Entry
	}{
		{"GemmTunableOp_BFloat16_TN,tn_4096_1040_14336_ld_14336_14336_4096," + oneName + ",0.125",
			Entry{Product: product("nk", "bf16", 4096, 14336), M: 1040, Solution: oneName, Algorithm: one, Milliseconds: 0.125}},
		{"GemmTunableOp_Half_NN,nn_8_3_32_ld_8_32_8", Entry{Product: product("kn", "fp16", 8, 32), M: 3}},
		{"GemmTunableOp_tf32_TN,tn_8_3_32_ld_32_32_8,Default,0.5",
			Entry{Product: product("nk", "tf32", 8, 32), M: 3, Solution: "Default", Milliseconds: 0.5}},
		{"GemmTunableOp_float_TN,tn_8_3_32_ld_32_32_8,Default", Entry{Product: product("nk", "fp32", 8, 32), M: 3, Solution: "Default"}},
		{"GemmTunableOp_float_TN,tn_8_3_32_ld_32_32_8,- { function: matmul, M: 8, N: 3 }",
			Entry{Product: product("nk", "fp32", 8, 32), M: 3}},
		{"GemmAndBiasTunableOp_BFloat16_TN,tn_8_3_32_ld_32_32_8," + oneName,
			Entry{Product: product("nk", "bf16", 8, 32), M: 3, Bias: true, Solution: oneName, Algorithm: one}},
		{"GemmTunableOp_BFloat16_TN,tn_8_3_32_ld_32_32_8," + oneName + "_x",
			Entry{Product: product("nk", "bf16", 8, 32), M: 3, Solution: oneName + "_x"}},
		{"GemmStridedBatchedTunableOp_BFloat16_TN,tn_8_3_32_B_4_ld_32_32_8", Entry{Other: "it is no plain product"}},
		{"ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_BFloat16_TN,tn_8_3_32_ld_32_32_8_rw_1_bias_None",
			Entry{Other: "it is no plain product"}},
		{"GemmTunableOp_c10::complex<float>_TN,tn_8_3_32_ld_32_32_8", Entry{Other: "its type is not measured"}},
		{"GemmTunableOp_double_TN,tn_8_3_32_ld_32_32_8", Entry{Other: "its type is not measured"}},
		{"GemmTunableOp_float_TN,tn_8_3_32_ld_32_32_8_compute_bf16x9_r", Entry{Other: "it is computed in another way"}},
		{"GemmTunableOp_BFloat16_TN,tn_8_*_32_ld_32_32_8", Entry{Other: "it stands for any size"}},
		{"GemmTunableOp_BFloat16_NT,nt_8_3_32_ld_8_3_8", Entry{Other: "its rows are transposed"}},
		{"GemmTunableOp_BFloat16_TN,tn_8_3_32_ld_48_32_8", Entry{Other: "there is room between its rows"}},
	} {
		f, err := Read(strings.NewReader("Validator,PT_VERSION,2.15.0\r\n\n" + tt.text + "\n"))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		tt.want.Text = tt.text
		want := &File{Validators: [][2]string{{"PT_VERSION", "2.15.0"}}, Entries: []Entry{tt.want}}
		if !reflect.DeepEqual(f, want) {
			t.Errorf("%s was read as\n%+v, expected\n%+v", tt.text, f, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"m,weight":                     `line 1: "m,weight", expected an operator of TunableOp's`,
		"GemmTunableOp_BFloat16_TN":    `line 1: "GemmTunableOp_BFloat16_TN", expected an operator`,
		"Validator,PT_VERSION":         `line 1: "Validator,PT_VERSION", expected Validator,NAME,VALUE`,
		"GemmTunableOp_BFloat16_TN,tn": `line 1: parameters "tn": expected TRANSPOSED_m_n_k_ld_lda_ldb_ldc`,
		"\nGemmTunableOp_BFloat16_TN,nn_8_3_32_ld_8_32_8": `line 2: parameters "nn_8_3_32_ld_8_32_8" of operator ` +
			`"GemmTunableOp_BFloat16_TN"`,
		"GemmTunableOp_BFloat16_TN,tn_0_3_32_ld_32_32_8":           `line 1: parameters "tn_0_3_32_ld_32_32_8": size "0", expected 1 to`,
		"GemmTunableOp_BFloat16_TN,tn_99999999999_3_32_ld_32_32_8": `line 1: parameters`,
		"GemmTunableOp_BFloat16_TN,tx_8_3_32_ld_32_32_8": `line 1: parameters "tx_8_3_32_ld_32_32_8": "tx", expected two of n ` +
			`and t`,
		"GemmTunableOp_BFloat16_TN,tn_8_3_32_ld_32_32_8,Default,-1": `line 1: time "-1", expected milliseconds`,
		strings.Repeat("G", maxLine+1):                              `line 1: more than 65536 bytes`,
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: %v, expected %s", text, err, want)
		}
	}
}

// Editors may add a byte order mark.
func TestReadByteOrderMark(t *testing.T) {
	const text = "Validator,PT_VERSION,2.15.0\nGemmTunableOp_float_TN,tn_8_3_32_ld_32_32_8,Default,0.5\n"
	f, err := Read(strings.NewReader("\ufeff" + text))
	if err != nil || !slices.Equal(f.Validators, [][2]string{{"PT_VERSION", "2.15.0"}}) || len(f.Entries) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	var b bytes.Buffer
	if err := f.Strike(&b, func(table.Product, int) bool { return false }); err != nil || b.String() != text {
		t.Errorf("written back as %q, %v", b.String(), err)
	}
	var wrong *LineError
	if _, err := Read(strings.NewReader(text + "\ufeff" + text)); !errors.As(err, &wrong) || wrong.Line != 3 {
		t.Errorf("%v, expected line 3 to be wrong", err)
	}
}

// Read errors are not line errors.
func TestReadFails(t *testing.T) {
	var wrong *LineError
	broken := errors.New("broken disk")
	if _, err := Read(iotest.ErrReader(broken)); !errors.Is(err, broken) || errors.As(err, &wrong) {
		t.Errorf("%v, expected the disk's", err)
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"2.15.0": "2.15.0", "2.15.0+cu132": "2.15.0", "2.15.0a0+git12ab": "2.15.0", "2.14": "2.14.0", "3.0.1": "3.0.1",
		"2.13.9": "", "1.99.0": "", "2": "", "": "", "2.15.0,x": "", "v2.15.0": "", "2.15.0\n": "",
	} {
		got, err := ParseVersion(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, expected %q", in, got, err, want)
		}
	}
}

func example() *table.Table {
	tuned := table.Action{Kind: table.Algorithm, Kernel: Library, Algorithm: one}
	return &table.Table{Schema: table.Schema, Created: "2024-05-06T07:08:09Z", Validators: table.Validators{Device: "card"},
		Series: []table.Series{
			{Product: table.Product{Kernel: "cublas", DType: "bf16", Layout: table.KN, N: 8, K: 32},
				Default: table.Action{Kind: table.Direct}, Intervals: []table.Interval{
					{From: 1, To: 3, Action: tuned,
						Proofs: []table.Proof{{M: 2, DirectUS: 3, RemedyUS: 2.5, GainLo: 1.1, GainMid: 1.2, GainHi: 1.3}}},
				}},
			{Product: table.Product{Kernel: "cublas", DType: "bf16", Layout: table.NK, N: 4096, K: 14336},
				Default: table.Action{Kind: table.Direct}, Intervals: []table.Interval{
					{From: 16, To: 48, Step: 16, Action: tuned},
					{From: 64, To: 64, Action: table.Action{Kind: table.Kernel, Kernel: "cublaslt:2"}},
					{From: 65, To: 96, Action: table.Action{Kind: table.Pad, PadTo: 96, Pad: table.InPlace}},
					{From: 97, To: 97, Action: table.Action{Kind: table.Algorithm, Kernel: "other", Algorithm: one}},
				}},
			{Product: table.Product{Kernel: "cublaslt", DType: "bf16", Layout: table.KN, N: 8, K: 32},
				Default: table.Action{Kind: table.Direct}, Intervals: []table.Interval{
					{From: 2, To: 2, Action: table.Action{Kind: table.Algorithm, Kernel: Library, Algorithm: table.Attributes{ID: 1}}},
				}},
			{Product: table.Product{Kernel: "cublas", DType: "fp8", Layout: table.NK, N: 16, K: 16},
				Default: table.Action{Kind: table.Direct}, Intervals: []table.Interval{
					{From: 1, To: 1, Action: tuned},
				}},
		}}
}

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	w, err := Write(&b, example(), "2.15.0")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "tunableop_results.csv")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, b.Bytes()) {
		t.Errorf("differs from %s (rewrite it with -update):\n%s", path, b.Bytes())
	}
	left := map[string]int{"the attributes of the algorithm are not in the table": 1, "it is no algorithm of cublaslt": 1,
		"the algorithm is not cublaslt's": 1, "PyTorch's operators have no fp8": 1, "another kernel's entry is for the same product": 1}
	if w.Lines != 6 || !maps.Equal(w.Left, left) {
		t.Errorf("%+v, expected 6 lines and %v", w, left)
	}

	// Written files must read back and lose only lines.
	f, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	got, unchecked := f.Table("cublas", time.Unix(0, 0))
	if err := got.Validate(); err != nil || len(unchecked) > 0 {
		t.Fatal(err, unchecked)
	}
	for _, s := range example().Series[:2] {
		for m := 1; m <= 64; m++ {
			want := s.Lookup(m)
			if want.Kind != table.Algorithm || m > 16 && m%16 != 0 {
				want = table.Action{Kind: table.Direct}
			}
			if a := got.Lookup(s.Product, m); !a.Equal(want) {
				t.Errorf("%v m%d: %+v, expected %+v", s, m, a, want)
			}
		}
	}
	b.Reset()
	if err := f.Strike(&b, func(p table.Product, m int) bool { return p.N == 8 && m == 2 }); err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(want)))
	if text := strings.Join(slices.Delete(lines, 2, 3), ""); b.String() != text {
		t.Errorf("struck:\n%s\nexpected\n%s", b.String(), text)
	}
}

func TestUnchecked(t *testing.T) {
	const bias = "GemmAndBiasTunableOp_BFloat16_TN,tn_8_3_32_ld_32_32_8," + oneName + "\n"
	const plain = "GemmTunableOp_BFloat16_TN,tn_8_3_32_ld_32_32_8,Default,0.5\n"
	f, err := Read(strings.NewReader(bias + plain + "GemmTunableOp_double_TN,tn_8_3_32_ld_32_32_8,Default\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, unchecked := f.Table("cublas", time.Unix(0, 0))
	want := map[string]int{"it adds a bias": 1, "it names no algorithm of cublaslt": 1, "its type is not measured": 1}
	if len(got.Series) != 0 || !maps.Equal(unchecked, want) {
		t.Errorf("%+v, %v, expected %v", got.Series, unchecked, want)
	}
	var b bytes.Buffer
	if err := f.Strike(&b, func(table.Product, int) bool { return true }); err != nil || strings.Count(b.String(), "\n") != 3 {
		t.Errorf("%v, lines that were not measured are struck:\n%s", err, b.String())
	}
}

func TestAlgorithmNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) int { return rapid.IntRange(0, 1<<16-1).Draw(t, name) }
		a := table.Attributes{ID: 1 + number("id")/2, Tile: number("tile"), Stages: number("stages"), SplitK: number("split"),
			Reduction: number("reduction"), Swizzle: number("swizzle"), Custom: number("custom"), Inner: number("inner"),
			Cluster: number("cluster")}
		if got, ok := ParseAlgorithm(AlgorithmName(a)); !ok || got != a {
			t.Fatalf("%s was read as %+v, %v", AlgorithmName(a), got, ok)
		}
	})
	for _, bad := range []string{"", "Default", "Gemm_Cublaslt_", oneName[:len(oneName)-2], oneName + "7777777",
		strings.Replace(oneName, "66", "-1", 1), strings.Replace(oneName, "66", "066", 1)} {
		if a, ok := ParseAlgorithm(bad); ok {
			t.Errorf("%q was read as %+v", bad, a)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("Validator,PT_VERSION,2.15.0\nGemmTunableOp_BFloat16_TN,tn_8_3_32_ld_32_32_8," + oneName + ",0.5\n")
	f.Add("GemmTunableOp_BFloat16_NN,nn_8_3_32_ld_8_32_8\nGemmAndBiasTunableOp_Half_TN,tn_8_3_*_ld_32_32_8")
	f.Add("ScaledGemmTunableOp_x,y,z\r\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		tuned, _ := file.Table("cublas", time.Unix(0, 0))
		if err := tuned.Validate(); err != nil {
			t.Fatalf("the table of an accepted file: %v", err)
		}
		var b bytes.Buffer
		if err := file.Strike(&b, func(table.Product, int) bool { return false }); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&b)
		if err != nil || len(again.Entries) != len(file.Entries) || len(again.Validators) != len(file.Validators) {
			t.Fatalf("%v: read again %d entries, expected %d", err, len(again.Entries), len(file.Entries))
		}
	})
}
