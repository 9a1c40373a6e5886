package sweep

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func FuzzParseBatches(f *testing.F) {
	for _, s := range []string{"4:32768:4", "1,2", "pow2:64:4096,7", "0", "1:4194304:1", "::", "pow2:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseBatches(s)
		if err != nil {
			return
		}
		if len(got) == 0 || got[0] < 1 || got[len(got)-1] > MaxDimension || !slices.IsSorted(got) {
			t.Fatalf("%q gave %v", s, got)
		}
		again, err := ParseBatches(got.String())
		if err != nil || !slices.Equal(got, again) {
			t.Fatalf("%q is written %q, which reads %v (%v)", s, got, again, err)
		}
	})
}

func FuzzParseShape(f *testing.F) {
	for _, s := range []string{"n14336k4096", "m1n1k1", "K4096 N14336", "n", "m0n1k1", "n4k4x8"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseProduct(s)
		if err != nil {
			return
		}
		if got.N < 1 || got.K < 1 || min(got.M, got.Products) < 0 || max(got.M, got.N, got.K, got.Products) > MaxDimension {
			t.Fatalf("%q gave %v", s, got)
		}
	})
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"n14336k4096", "b8n64k64", "q32kv8d128", "m512q32kv8d128w4096", "c4096", "c512q512", "m32768c16", "q1kv1d1w",
		"c1q2"} {
		for o := range Operations() {
			f.Add(uint8(o), s)
		}
	}
	f.Fuzz(func(t *testing.T, operation uint8, s string) {
		o := Operations()[int(operation)%len(Operations())]
		got, err := ParseTarget(o, s)
		if err != nil {
			return
		}
		if got.Operation != o {
			t.Fatalf("%q of %v is of %v", s, o, got.Operation)
		}
		subject, err := got.subject(kernels.FP16, kernels.RowMajor, kernels.WeightFormat{})
		if err != nil {
			t.Fatalf("%q of %v: %v", s, o, err)
		}
		if err := subject.Validate(); err != nil {
			t.Fatalf("%q of %v is %+v: %v", s, o, subject, err)
		}
		if got.M < 0 || got.M > MaxDimension {
			t.Fatalf("%q has m%d", s, got.M)
		}
	})
}

// FuzzModel parses --model and --tp for each operation. [FuzzConfig] covers names of files.
func FuzzModel(f *testing.F) {
	for _, s := range []string{"llama3-8b", "LLAMA3-70B:o_proj+down_proj", "mistral-7b:all", "qwen2.5-7b:", "llama3-8b:o_proj:qkv_proj",
		":", ""} {
		f.Add(s, 1)
		f.Add(s, 8)
	}
	f.Fuzz(func(t *testing.T, spec string, tp int) {
		if strings.ContainsAny(spec, `/\`) {
			return
		}
		for _, o := range Operations() {
			targets, err := ModelTargets(o, spec, tp, 1)
			if err != nil {
				continue
			}
			checkTargets(t, spec, targets)
		}
	})
}

func checkTargets(t *testing.T, spec string, targets []Target) {
	t.Helper()
	for _, target := range targets {
		if target.NotMeasured != "" {
			continue
		}
		subject, err := target.subject(kernels.FP16, kernels.RowMajor, kernels.WeightFormat{})
		if err == nil {
			err = subject.Validate()
		}
		if err != nil {
			t.Fatalf("%q asks for %+v: %v", spec, target, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_key_value_heads":8,`+
		`"vocab_size":128256}`), 1)
	f.Add([]byte(`{"model_type":"qwen2","hidden_size":3584,"intermediate_size":18944,"num_attention_heads":28,"num_key_value_heads":4,`+
		`"vocab_size":152064,"num_hidden_layers":28}`), 4)
	f.Add([]byte(`{"text_config":{"model_type":"qwen2"}}`), 2)
	configs, err := filepath.Glob("architecture/testdata/configs/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for i, config := range configs {
		data, err := os.ReadFile(config)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, 1+i%9)
	}
	f.Fuzz(func(t *testing.T, data []byte, tp int) {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := ReadModel(path)
		if err != nil {
			return
		}
		targets, err := m.Projections(1, "all")
		if err != nil && !strings.Contains(err.Error(), "expected at most") {
			t.Fatalf("%+v: %v", m, err)
		}
		checkTargets(t, path, targets)
		for _, o := range Operations() {
			if targets, err := ModelTargets(o, path, tp, 1); err == nil {
				checkTargets(t, path, targets)
			}
		}
	})
}

func FuzzShard(f *testing.F) {
	for _, s := range []string{"3/8", "1/1", "0/8", "9/8", "3", "1/65536", " 1 / 2 ", "-1/3", "1/2/3", "1e1/20"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseShard(s)
		if err != nil {
			return
		}
		if got.Index < 1 || got.Index > got.Count || got.Count > maxShards {
			t.Fatalf("%q is read as %+v", s, got)
		}
		if again, err := ParseShard(got.String()); err != nil || again != got {
			t.Fatalf("%q is written %q, which is read as %+v, %v", s, got, again, err)
		}
	})
}

// FuzzPlan reads the plan of a run file.
func FuzzPlan(f *testing.F) {
	for _, change := range []func(*Options){
		nil,
		func(o *Options) { o.Shard = Shard{2, 3} },
		func(o *Options) {
			o.Infer, o.Traffic = new(true), results.Traffic{{M: 1, Weight: 2}, {M: 8, Weight: 1}}
		},
	} {
		data, err := planned(f, declared(nil), "1:16,4:64:4", change).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodePlan(data)
		if err != nil {
			return
		}
		text, err := p.Encode()
		if err != nil {
			t.Fatalf("an accepted plan can't be written: %v", err)
		}
		again, err := DecodePlan(text)
		if err != nil {
			t.Fatalf("a written plan can't be read: %v", err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(text, twice) {
			t.Fatalf("%s is written as %s, %v", text, twice, err)
		}
		rows := 0
		for _, s := range p.Series {
			rows += len(s.Ms)
		}
		if rows > 1<<12 || p.Shard.Count > 1<<4 {
			return
		}
		parts := 0
		for i := range max(1, p.Shard.Count) {
			part := *p
			if p.Shard.Count > 0 {
				part.Shard.Index = i + 1
			}
			parts += part.Rows()
			for _, c := range part.Cases() {
				if err := checkCase(c); err != nil {
					t.Fatalf("a case of an accepted plan: %v", err)
				}
			}
		}
		if parts != rows {
			t.Fatalf("the parts of a plan have %d of %d rows", parts, rows)
		}
		for _, d := range p.Devices() {
			if mine := p.of(d); len(mine.Own()) > len(p.Series) {
				t.Fatalf("%q has %d of %d series", d, len(mine.Own()), len(p.Series))
			}
		}
		if _, err := (results.Meta{Plan: json.RawMessage(data)}).Planned(); err != nil {
			t.Fatalf("a reader of runs refuses what a sweep accepts: %v", err)
		}
	})
}
