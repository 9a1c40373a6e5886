package advice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func product(kernel string, n, k int, ms ...int) infer.SeriesTimes {
	s := kernels.Product(kernels.BF16, n, k)
	s.Layout = kernels.Transposed
	return series(results.SeriesKey{Device: "gpu", Kernel: kernel, Subject: s, Regime: results.Engine}, ms...)
}

func layer(name string, n, k, count int, e kernels.Epilogue) Product {
	return Product{Name: name, N: n, K: k, Count: count, Epilogue: e}
}

func series(key results.SeriesKey, ms ...int) infer.SeriesTimes {
	out := infer.SeriesTimes{Key: key, ClockMHz: 1800}
	for _, m := range ms {
		out.Rows = append(out.Rows, infer.RowTime{M: m, US: float64(m), SE: 0.01, DF: 9})
	}
	return out
}

func of(op kernels.Operation, kernel string, dims kernels.Dims, ms ...int) infer.SeriesTimes {
	return series(results.SeriesKey{Device: "gpu", Kernel: kernel, Regime: results.Engine,
		Subject: kernels.Subject{Operation: op, DType: kernels.BF16, Dims: dims}}, ms...)
}

var small = Need{
	Model: "small", Count: 2, Vocab: 500, Sequences: 1, Heads: kernels.Heads{Query: 4, KV: 2, Dim: 16},
	Layers: [][]Product{
		{layer("qkv", 128, 64, 2, 0), layer("o", 64, 64, 2, 0)},
		{layer("q", 64, 64, 2, 0), layer("k", 32, 64, 2, 0), layer("v", 32, 64, 2, 0),
			layer("o", 64, 64, 2, 0)},
	},
	Head: layer("lm_head", 500, 64, 1, 0),
}

var heads = kernels.Dims{QueryHeads: 4, KVHeads: 2, HeadDim: 16}

func run(name string, of ...infer.SeriesTimes) Run {
	return Run{Name: name, Times: of, Cards: map[string]string{"gpu": "card"}}
}

func TestFind(t *testing.T) {
	unfused := run("a.db", product("lib", 64, 64, 8, 16), product("lib", 32, 64, 8, 16))
	for _, c := range []struct {
		name    string
		runs    []Run
		need    func(n *Need)
		want    string // parts, each with its count and, after @, its fixed M
		missing string
	}{
		{"unfused", []Run{unfused}, nil, "q+o×4 k+v×4", "attention lm_head"},
		{"fused is taken first", []Run{unfused, run("b.db", product("lib", 128, 64, 8, 16))}, nil, "qkv×2 o×2", "attention lm_head"},
		{"the head runs at the next known M", []Run{unfused, run("b.db", product("lib", 500, 64, 4, 8))}, func(n *Need) { n.Sequences = 3 },
			"q+o×4 k+v×4 lm_head×1@4", "attention"},
		{"no known M is as large", []Run{unfused, run("b.db", product("lib", 500, 64, 4, 8))}, func(n *Need) { n.Sequences = 9 },
			"q+o×4 k+v×4", "attention lm_head"},
		{"each token a sequence", []Run{unfused, run("b.db", product("lib", 500, 64, 8, 16))}, func(n *Need) { n.Sequences = 0 },
			"q+o×4 k+v×4 lm_head×1", "attention"},
		{"attention", []Run{unfused, run("b.db", of(kernels.AttentionPrefill, "flash", heads, 8, 16))}, nil, "q+o×4 k+v×4 attention×2",
			"lm_head"},
		{"attention of another model",
			[]Run{unfused, run("b.db", of(kernels.AttentionPrefill, "flash", kernels.Dims{QueryHeads: 8, KVHeads: 2, HeadDim: 16}, 8, 16))},
			nil, "q+o×4 k+v×4", "attention lm_head"},
		{"attention of several sequences is not swept", []Run{unfused, run("b.db", of(kernels.AttentionPrefill, "flash", heads, 8, 16))},
			func(n *Need) { n.Sequences = 0 }, "q+o×4 k+v×4", "attention lm_head"},
		{"softmax",
			[]Run{unfused, run("b.db", of(kernels.Softmax, "any", kernels.Dims{Columns: 500}, 1, 8),
				of(kernels.Softmax, "any", kernels.Dims{Columns: 64}, 1, 8))}, nil, "q+o×4 k+v×4 softmax×1@1", "attention lm_head"},
		{"one of two kernels", []Run{unfused, run("b.db", product("ours", 64, 64, 8, 16), product("ours", 32, 64, 8, 16))},
			func(n *Need) { n.Kernel = "ours" }, "q+o×4 k+v×4", "attention lm_head"},
		{"a second kernel that lacks a product", []Run{unfused, run("b.db", product("ours", 64, 64, 8))}, nil, "q+o×4 k+v×4",
			"attention lm_head"},
	} {
		need := small
		if c.need != nil {
			c.need(&need)
		}
		m, err := Find(c.runs, need)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := partsText(m.Parts); got != c.want || strings.Join(m.Missing, " ") != c.missing || m.Card != "card" || m.ClockMHz != 1800 {
			t.Errorf("%s: %s, missing %v, card %q, %g MHz; expected %s, missing %s", c.name, got, m.Missing, m.Card, m.ClockMHz, c.want,
				c.missing)
		}
	}
}

func partsText(parts []Part) string {
	var words []string
	for _, p := range parts {
		word := p.Name() + "×" + Text([]int{p.Count})
		if p.FixedM > 0 {
			word += "@" + Text([]int{p.FixedM})
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

var mixed = Need{
	Model: "mixed", Count: 2, Vocab: 500, Sequences: 1, Heads: kernels.Heads{Query: 4, KV: 2, Dim: 16},
	Layers: [][]Product{{layer("o", 64, 64, 2, 0), layer("router", 8, 64, 2, 0),
		{Name: "experts", N: 32, K: 64, Count: 2, Experts: 8, Active: 2}}},
	Head: layer("lm_head", 500, 64, 1, 0),
}

// experts are the experts of mixed, by rows.
func experts(kernel string, skew int, ms ...int) infer.SeriesTimes {
	dims := kernels.Dims{N: 32, K: 64, Groups: 8}
	if skew > 0 {
		dims.TopK, dims.Skew, dims.Draw = 2, skew, 1
	}
	s := kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.BF16, Dims: dims}.In(kernels.Transposed)
	return series(results.SeriesKey{Device: "gpu", Kernel: kernel, Subject: s, Regime: results.Engine}, ms...)
}

// The rows of experts are tokens times the experts of each; drawn rows are preferred.
func TestExperts(t *testing.T) {
	dense := run("a.db", product("lib", 64, 64, 8, 16, 32), product("lib", 8, 64, 8, 16, 32))
	for _, c := range []struct {
		name string
		of   []infer.SeriesTimes
		want string // the M of the pass, and its microseconds
		err  string
	}{
		{"drawn", []infer.SeriesTimes{experts("lib", 100, 16, 32, 33)}, "8: 64, 16: 128", ""},
		{"drawn and even", []infer.SeriesTimes{experts("lib", 100, 16), experts("lib", 0, 16, 32)}, "8: 64", ""},
		{"even", []infer.SeriesTimes{experts("lib", 0, 32)}, "16: 128", ""},
		{"of another kernel", []infer.SeriesTimes{experts("other", 0, 32)}, "", "a product of mixed is missing: experts (n32 k64 g8)"},
		{"of a named kernel", []infer.SeriesTimes{experts("other", 0, 32), experts("lib", 0, 16, 32)}, "16: 128", ""},
		{"several routings", []infer.SeriesTimes{experts("lib", 100, 16), experts("lib", 0, 16), experts("lib", 50, 16)}, "",
			"n32 k64 g8 t2 s100 d1 and in n32 k64 g8 t2 s50 d1"},
	} {
		need := mixed
		if c.name == "of a named kernel" {
			need.Kernel, need.Experts = "lib", "other"
		}
		m, err := Find([]Run{dense, run("b.db", c.of...)}, need)
		if err != nil {
			if c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, expected %q", c.name, err, c.err)
			}
			continue
		}
		p, err := Sum(m.Parts)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for i, m := range p.Ms() {
			got = append(got, fmt.Sprintf("%d: %.0f", m, p.Seconds(i).Mid*1e6))
		}
		if text := strings.Join(got, ", "); text != c.want || c.err != "" {
			t.Errorf("%s: %s, expected %s", c.name, text, c.want)
		}
	}
}

// A checkpoint with experts of fp8 keeps its router and its head plain: their series have another type.
func TestPlainProductsNextToScaledOnes(t *testing.T) {
	scaled := func(s infer.SeriesTimes, format string) infer.SeriesTimes {
		s.Key.DType = kernels.FP8
		w, err := kernels.ParseWeights(format)
		if err == nil {
			s.Key.Weights, err = w.For(kernels.FP8, s.Key.K)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	router, head := product("lib", 8, 64, 8, 16), product("lib", 500, 64, 8, 16)
	o, of := product("lib", 64, 64, 8, 16), experts("lib", 100, 16, 32)
	kept := mixed
	kept.Layers = [][]Product{slices.Clone(mixed.Layers[0])}
	kept.Layers[0][1].Plain, kept.Head.Plain = true, true
	half := router
	half.Key.DType = kernels.FP16
	for _, c := range []struct {
		name  string
		need  Need
		dtype kernels.DType
		of    []infer.SeriesTimes
		want  string
	}{
		{"kept plain", kept, "", []infer.SeriesTimes{router, head}, "o×2 router×2 experts×2 lm_head×1@8"},
		{"of a given type", kept, kernels.FP8, []infer.SeriesTimes{router, head}, "o×2 router×2 experts×2 lm_head×1@8"},
		{"in fp16", kept, "", []infer.SeriesTimes{half}, "o×2 router×2 experts×2"},
		{"a plain model", mixed, "", []infer.SeriesTimes{router}, ""},
		{"of another kernel", kept, "", []infer.SeriesTimes{product("other", 8, 64, 8, 16)}, ""},
	} {
		c.need.DType = c.dtype
		all := append([]infer.SeriesTimes{scaled(o, "fp8:128x128"), scaled(of, "fp8:128x128")}, c.of...)
		m, err := Find([]Run{run("a.db", all...)}, c.need)
		switch {
		case err != nil && c.want != "":
			t.Errorf("%s: %v", c.name, err)
		case err == nil && partsText(m.Parts) != c.want:
			t.Errorf("%s: %s, expected %q", c.name, partsText(m.Parts), c.want)
		}
	}
	// Scales of columns are as long as K, which differs.
	other := scaled(product("lib", 32, 128, 8, 16), "fp8:column")
	down := mixed
	down.Layers = [][]Product{{layer("o", 64, 64, 2, 0), layer("down", 32, 128, 2, 0)}}
	if m, err := Find([]Run{run("a.db", scaled(o, "fp8:column"), other)}, down); err != nil || partsText(m.Parts) != "o×2 down×2" {
		t.Errorf("columns: %v", err)
	}
}

// Layers of the same shape take the series with their own epilogue each.
func TestFusedProducts(t *testing.T) {
	fused := func(e kernels.Epilogue) infer.SeriesTimes {
		s := product("lib", 64, 64, 8, 16)
		s.Key.Operation, s.Key.Epilogue = kernels.FusedGEMM, e
		return s
	}
	plain, kv := product("lib", 64, 64, 8, 16), product("lib", 32, 64, 8, 16)
	residual, both := fused(kernels.Residual), fused(kernels.Bias+kernels.Residual)
	for _, c := range []struct {
		name  string
		of    []infer.SeriesTimes
		parts string // with their epilogues
		fused bool
		warns string // the product and the two epilogues
	}{
		{"own epilogues", []infer.SeriesTimes{residual, plain, both}, "q×2 k+v×4 o×2 residual", true, ""},
		{"only the epilogue", []infer.SeriesTimes{residual}, "q+o×4 residual k+v×4", false, "q residual none"},
		{"another epilogue and none", []infer.SeriesTimes{both, plain}, "q+o×4 k+v×4", false, ""},
		{"another epilogue", []infer.SeriesTimes{both}, "q+o×4 bias+residual k+v×4", false,
			"q bias+residual none, o bias+residual residual"},
		{"only products", []infer.SeriesTimes{plain}, "q+o×4 k+v×4", false, ""},
		{"two other epilogues", []infer.SeriesTimes{both, fused(kernels.Bias)}, "", false, ""},
	} {
		need := small
		need.Layers = [][]Product{slices.Clone(small.Layers[1])}
		need.Layers[0][3].Epilogue = kernels.Residual
		m, err := Find([]Run{run("a.db", append(c.of, kv)...)}, need)
		if err != nil {
			if c.parts != "" || !strings.Contains(err.Error(), "n64 k64 has the epilogues bias and bias+residual") {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var words, warned []string
		for _, p := range m.Parts {
			word := partsText([]Part{p})
			if e := p.Series.Epilogue; e != 0 {
				word += " " + e.String()
			}
			words = append(words, word)
		}
		for _, w := range m.Warnings {
			warned = append(warned, w.Subject+" "+w.Text)
		}
		if got := strings.Join(words, " "); got != c.parts || m.Fused != c.fused {
			t.Errorf("%s: %s, fused %v; expected %s, %v", c.name, got, m.Fused, c.parts, c.fused)
		}
		if want := strings.Split(c.warns, ", "); len(warned) != len(strings.Fields(c.warns))/3 {
			t.Errorf("%s: warnings %q, expected %q", c.name, warned, want)
		} else {
			for i, text := range warned {
				for _, word := range strings.Fields(want[i]) {
					if !strings.Contains(text, word) {
						t.Errorf("%s: %q lacks %q", c.name, text, word)
					}
				}
			}
		}
	}
	// In a mixture of both, products alone are named too.
	need := small
	need.Layers = [][]Product{{layer("qkv", 128, 64, 2, kernels.Bias), layer("o", 64, 64, 2, kernels.Residual)}}
	m, err := Find([]Run{run("a.db", product("lib", 128, 64, 8, 16), residual)}, need)
	if err != nil || m.Fused || len(m.Warnings) != 1 || m.Warnings[0].Subject != "qkv" {
		t.Errorf("%+v, %v", m, err)
	}
	// Gates that no epilogue computes stay a part of the rest, and gated times are named with the reason.
	need.Layers[0][0].Epilogue, need.Layers[0][0].Beyond = 0, "its gates are gelu"
	for e, warnings := range map[kernels.Epilogue]int{0: 0, kernels.Gated: 1} {
		qkv := product("lib", 128, 64, 8, 16)
		if qkv.Key.Epilogue = e; e != 0 {
			qkv.Key.Operation = kernels.FusedGEMM
		}
		m, err := Find([]Run{run("a.db", qkv, residual)}, need)
		if err != nil || m.Fused || len(m.Warnings) != warnings || warnings > 0 && !strings.Contains(m.Warnings[0].Text, "gates are gelu") {
			t.Errorf("%v: %+v, %v", e, m, err)
		}
	}
}

func TestNotFound(t *testing.T) {
	q, k := product("lib", 64, 64, 8), product("lib", 32, 64, 8)
	stored := q
	stored.Key.Layout = kernels.RowMajor
	elsewhere := q
	elsewhere.Key.Device = "other"
	empty := product("lib", 32, 64)
	for _, c := range []struct {
		name, want string
		runs       []Run
	}{
		{"nothing", "a.db: has no series", []Run{run("a.db")}},
		{"a product lacks", "a.db: a product of small is missing: qkv (n128 k64)", []Run{run("a.db", q)}},
		{"rows lack", "a.db: a product of small is missing: qkv (n128 k64)", []Run{run("a.db", q, empty)}},
		{"another model's", "a.db: 2 products of small are missing: qkv (n128 k64), o (n64 k64)",
			[]Run{run("a.db", product("lib", 7, 7, 8))}},
		{"another layout", "stored as [K,N] (layout", []Run{run("a.db", stored)}},
		{"two devices", "a.db: products of gpu and other, expected only one device", []Run{run("a.db", q, elsewhere)}},
		{"two cards", "gpu is card in one run and other card in b.db: expected runs of one",
			[]Run{run("a.db", q), {Name: "b.db", Times: []infer.SeriesTimes{k}, Cards: map[string]string{"gpu": "other card"}}}},
		{"twice", "a.db and b.db both have gpu/lib/bf16 n64 k64 nk", []Run{run("a.db", q), run("b.db", q)}},
		{"two kernels", "are in the runs 2 times, from lib in bf16; ours in bf16: expected only one",
			[]Run{run("a.db", q, k, product("ours", 64, 64, 8), product("ours", 32, 64, 8))}},
		{"two attentions", "2 runs have attention",
			[]Run{run("a.db", q, k, of(kernels.AttentionPrefill, "flash", heads, 8), of(kernels.AttentionPrefill, "other", heads, 8))}},
	} {
		m, err := Find(c.runs, small)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; expected %q", c.name, m, err, c.want)
		}
	}
}

func TestReplace(t *testing.T) {
	m, err := Find([]Run{run("a.db", product("lib", 64, 64, 8), product("lib", 32, 64, 8),
		of(kernels.AttentionPrefill, "flash", heads, 8))}, small)
	if err != nil {
		t.Fatal(err)
	}
	m.Replace(ImportPart("attention", []importing.PassTime{{M: 8, Seconds: 2, Low: 1.9, High: 2.1, Count: 3}}))
	m.Replace(ImportPart("lm_head", []importing.PassTime{{M: 8, Seconds: 1, Count: 1}}))
	if got := partsText(m.Parts); got != "q+o×4 k+v×4 attention×1 lm_head×1" || len(m.Missing) > 0 {
		t.Fatalf("parts %s, missing %v", got, m.Missing)
	}
	i := slices.IndexFunc(m.Parts, func(p Part) bool { return p.Names[0] == "attention" })
	if x := m.Parts[i].Times[0]; x.Seconds != 6 || x.SE < 0.025 || x.SE > 0.026 || m.Parts[i].Source != Imported {
		t.Errorf("attention %+v", m.Parts[i])
	}
	if x := m.Parts[i].Times[0]; x.Scatter != infer.OwnScatter {
		t.Errorf("a time with an interval has %s scatter", x.Scatter)
	}
	if x := m.Parts[i+1].Times[0]; !(x.SE >= 0.02) || x.Scatter != infer.AssumedScatter {
		t.Errorf("a time without an interval has the error %g by %s scatter", x.SE, x.Scatter)
	}
}
