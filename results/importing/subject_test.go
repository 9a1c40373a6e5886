package importing

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
)

const subjectHeader = "device,kernel,dtype,m,n,k,round,us,operation,layout,dims,operands\n"

func TestImportSubject(t *testing.T) {
	plain := kernels.Product(kernels.BF16, 8, 16)
	nk, batched, int4, wide := plain, plain, plain, plain
	nk.Layout, batched.Products, wide.Output = kernels.Transposed, 4, kernels.FP32
	int4.Weights = kernels.WeightFormat{Type: "int4", Bits: 4, GroupK: 128, GroupN: 1, Scale: kernels.FP16}
	heads := kernels.Dims{QueryHeads: 32, KVHeads: 8, HeadDim: 128, Window: 4096}
	for _, tt := range []struct {
		line    string
		layout  string // --layout
		want    kernels.Subject
		wantErr string
	}{
		{line: "8,16,0,1,,,,", want: plain},
		{line: "8,16,0,1,gemm,kn,,", want: plain},
		{line: "8,16,0,1,gemm,nk,,", want: nk},
		{line: "8,16,0,1,,,,", layout: "nk", want: nk},
		{line: "8,16,0,1,,nk,,", layout: "kn", wantErr: `column layout: "nk" is not the kn of --layout`},
		{line: `8,16,0,1,,,"{""k"":16,""n"":8,""products"":4}",`, want: batched},
		{line: `8,16,0,1,,,"{""k"":32,""n"":8}",`, wantErr: "contradicts columns n and k"},
		{line: `8,16,0,1,,,"{""heads"":4,""k"":16,""n"":8}",`, wantErr: `has a dimension "heads" that gemm has not`},
		{line: "8,16,0,1,,kk,,", wantErr: `unknown layout "kk"`},
		{line: "8,16,0,1,fft,,,", wantErr: `unknown operation "fft"`},
		{line: `0,0,0,1,attention-decode,,"{""head_dim"":128,""kv_heads"":8,""query_heads"":32,""window"":4096}",`,
			want: kernels.Subject{Operation: kernels.AttentionDecode, DType: kernels.BF16, Dims: heads}},
		{line: `0,0,0,1,attention-prefill,nk,"{""head_dim"":128,""kv_heads"":8,""query_heads"":32}",`,
			wantErr: "attention-prefill has no weights"},
		{line: `0,0,0,1,attention-prefill,,"{""head_dim"":128,""kv_heads"":5,""query_heads"":32}",`, wantErr: "do not divide evenly"},
		{line: `8,16,0,1,,,,"` + strings.ReplaceAll(results.OperandsText(int4), `"`, `""`) + `"`, want: int4},
		{line: `8,16,0,1,,,,"` + strings.ReplaceAll(results.OperandsText(wide), `"`, `""`) + `"`, want: wide},
		{line: `8,16,0,1,,,,"` + strings.ReplaceAll(results.OperandsText(kernels.Product(kernels.FP16, 1, 1)), `"`, `""`) + `"`,
			wantErr: "the line is of dtype bf16"},
		{line: "8,16,0,1,,,,{}", wantErr: "operands"},
	} {
		in := writeFile(t, "x.csv", subjectHeader+"cpu,lib,bf16,4,"+tt.line+"\n")
		r, err := Import(t.Context(), []string{in}, filepath.Join(t.TempDir(), "run.db"), Options{Layout: tt.layout})
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s: %v, expected %q", tt.line, err, tt.wantErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		cases := must1(r.Cases())(t)
		if d := cmp.Diff(tt.want, cases[0].Subject); d != "" {
			t.Errorf("%s: %s", tt.line, d)
		}
		var b bytes.Buffer
		must(t, export.Write(r.Run, &b, export.FormatCSV, export.Samples{}))
		again, err := Import(t.Context(), []string{writeFile(t, "again.csv", b.String())}, filepath.Join(t.TempDir(), "again.db"),
			Options{})
		if err != nil {
			t.Errorf("%s: exported as %s: %v", tt.line, b.String(), err)
			continue
		}
		if d := cmp.Diff(cases[0].SeriesKey, must1(again.Cases())(t)[0].SeriesKey); d != "" {
			t.Errorf("%s: exported and imported: %s", tt.line, d)
		}
		must(t, again.Close())
		must(t, r.Close())
	}
}

// A device's first line has the peaks; an import must use them for MFU.
func TestImportKeepsCeilings(t *testing.T) {
	const header = "device,kernel,dtype,m,n,k,round,us,ceilings\n"
	ceilings := func(flops, read float64) string {
		text := must1(json.Marshal(kernels.Ceilings{ReadBandwidth: read, CopyBandwidth: 2 * read, Peaks: []kernels.Peak{
			{DType: kernels.BF16, FLOPS: flops, Origin: kernels.Measured, ClockMHz: 1500, Unit: "AMX"},
			{DType: kernels.BF16, FLOPS: 2 * flops, Origin: kernels.DataSheet},
		}}))(t)
		return `"` + strings.ReplaceAll(string(text), `"`, `""`) + `"`
	}
	for name, tt := range map[string]struct {
		lines       []string
		flops, read float64 // of cpu
		wantErr     string
	}{
		"first line": {lines: []string{"cpu,lib,bf16,4,8,16,0,1.5," + ceilings(1e12, 1e9), "cpu,lib,bf16,4,8,16,1,1.5,"}, flops: 1e12,
			read: 1e9},
		"other device": {lines: []string{"cpu,lib,bf16,4,8,16,0,1.5,", "gpu,lib,bf16,4,8,16,0,1.5," + ceilings(1e12, 1e9)}},
		"the highest": {lines: []string{"cpu,lib,bf16,4,8,16,0,1.5," + ceilings(1e12, 3e9),
			"cpu,lib,bf16,4,8,16,1,1.5," + ceilings(2e12, 1e9)}, flops: 2e12, read: 3e9},
		"no object": {lines: []string{"cpu,lib,bf16,4,8,16,0,1.5,fast"},
			wantErr: `column ceilings: "fast" is not a JSON object of peaks and bandwidths`},
		"below nothing": {lines: []string{"cpu,lib,bf16,4,8,16,0,1.5," + ceilings(-1, 1)}, wantErr: "is impossible: flops is -1"},
		"too many": {lines: []string{`cpu,lib,bf16,4,8,16,0,1.5,"{""peaks"":[` + strings.Repeat(`{""flops"":1},`, results.MostPeaks) +
			`{}]}"`},
			wantErr: "is impossible: 257 peaks, expected at most 256"},
	} {
		in := writeFile(t, "x.csv", header+strings.Join(tt.lines, "\n")+"\n")
		r, err := Import(t.Context(), []string{in}, filepath.Join(t.TempDir(), "run.db"), Options{})
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s: %v, expected %q", name, err, tt.wantErr)
			}
			continue
		}
		must(t, err)
		s := must1(r.Series())(t)[0]
		if s.Peak.FLOPS != tt.flops || s.Bandwidth.Rate != tt.read || (s.Peak.Origin == kernels.Relative) != (tt.flops == 0) {
			t.Errorf("%s: peak %+v, bandwidth %+v, expected %g and %g", name, s.Peak, s.Bandwidth, tt.flops, tt.read)
		}
		var b bytes.Buffer
		must(t, export.Write(r.Run, &b, export.FormatCSV, export.Samples{}))
		again := must1(Import(t.Context(), []string{writeFile(t, "again.csv", b.String())}, filepath.Join(t.TempDir(), "again.db"),
			Options{}))(t)
		if d := cmp.Diff(r.Meta().Ceilings, again.Meta().Ceilings); d != "" {
			t.Errorf("%s: exported and imported: %s", name, d)
		}
		must(t, again.Close())
		must(t, r.Close())
	}
}
