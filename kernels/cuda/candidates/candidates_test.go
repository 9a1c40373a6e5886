package candidates

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

var update = flag.Bool("update", false, "write the files of cards as they are encoded")

// Card files have the encoder's format, so a new fit changes only numbers. This package imports all their
// models.
func TestCardsAreAsEncoded(t *testing.T) {
	files, err := filepath.Glob("../calibration/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := calibration.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if *update {
			if err := os.WriteFile(file, c.Encode(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(string(text), string(c.Encode())); diff != "" {
			t.Errorf("%s is not as it is encoded (-file +encoded):\n%s", file, diff)
		}
		for name, m := range c.Models {
			if !slices.Contains(calibration.Names(), name) || len(m.Constants) == 0 {
				t.Errorf("%s: nothing reads model %s", file, name)
			}
		}
	}
}

func TestGrid(t *testing.T) {
	grid := Grid(1)
	if other := Grid(2); len(other) != len(grid) || slices.Equal(other, grid) || !slices.Equal(Grid(1), grid) {
		t.Error("the order does not follow from the seed")
	}
	seen, chosen := map[Case]bool{}, map[string]int{}
	for _, c := range grid {
		if seen[c] {
			t.Errorf("%v is there twice", c)
		}
		seen[c] = true
		some := false
		for _, f := range Families(c.Operation) {
			all, err := Expect(cudatest.H200, c, f)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range all {
				some = true
				if e.Label == "" || !(e.Seconds > 0) || math.IsInf(e.Seconds, 0) {
					t.Errorf("%v: candidate %d of %s is %+v", c, i, f, e)
				}
			}
			if len(all) > 1 {
				chosen[f]++
			}
		}
		if !some {
			t.Errorf("%v: no family takes it", c)
		}
	}
	for _, o := range []kernels.Operation{kernels.GEMM, kernels.AttentionDecode} {
		for _, f := range Families(o) {
			if chosen[f] < 10 {
				t.Errorf("%s chooses in %d cases", f, chosen[f])
			}
		}
	}
}

// Each constant affects the expected time of some case. Exceptions are types that the grid lacks, unaligned
// operands, and prompts so short that they are memory-bound.
func TestGridTouchesConstants(t *testing.T) {
	if testing.Short() {
		t.Skip("each constant of a card is changed in turn")
	}
	expected := func(c *calibration.Card) []float64 {
		restore, err := calibration.Try(c)
		if err != nil {
			t.Fatal(err)
		}
		defer restore()
		var all []float64
		for _, c := range Grid(1)[:40] {
			for _, f := range Families(c.Operation) {
				plans, err := Expect(cudatest.H200, c, f)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range plans {
					all = append(all, e.Seconds)
				}
			}
		}
		return all
	}
	cards := calibration.Cards()
	before := expected(cards[0])
	var still []string
	for name, m := range cards[0].Models {
		for constant := range m.Constants {
			c := cards[0].Clone()
			q := c.Models[name].Constants[constant]
			q.Value *= 0.5
			c.Models[name].Constants[constant] = q
			if slices.Equal(before, expected(c)) {
				still = append(still, name+" "+constant)
			}
		}
	}
	slices.Sort(still)
	if want := []string{"attention memory", "gemv issue", "hopper elements", "hopper energy", "hopper energy_beside", "hopper energy_cut",
		"hopper energy_reads"}; !slices.Equal(still, want) {
		t.Errorf("the grid says nothing of %q, expected nothing only of %q", still, want)
	}
}

func TestExpectRefuses(t *testing.T) {
	sound := Grid(1)[0]
	gemm := sound
	gemm.Subject = kernels.Product(kernels.BF16, 4096, 4096)
	for _, c := range []struct {
		change func(*Case)
		family string
		want   string
	}{
		{func(c *Case) { c.M = 0 }, "hopper", "m is 0, expected at least 1"},
		{func(c *Case) { c.N = 0 }, "hopper", "n is 0, expected at least 1"},
		{func(*Case) {}, "tiled", `no family "tiled" chooses by constants of a card`},
		{func(*Case) {}, "flash", `no family "flash" chooses by constants of a card`},
		{func(c *Case) {
			c.Subject = kernels.Subject{Operation: kernels.AttentionDecode, DType: kernels.INT8,
				Dims: kernels.Dims{QueryHeads: 1, KVHeads: 1, HeadDim: 64}}
		}, "decode", `dtype: "int8", expected fp32, fp16 or bf16`},
	} {
		one := gemm
		one.M = 8
		c.change(&one)
		if _, err := Expect(cudatest.H200, one, c.family); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v by %s: %v, want %s", one, c.family, err, c.want)
		}
	}
	gemm.M = 9
	if all, err := Expect(cudatest.H200, gemm, "gemv"); err != nil || all != nil {
		t.Errorf("gemv of 9 rows: %v, %v", all, err)
	}
}

func file(t testing.TB) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteCard(&b, Describe("NVIDIA H200", "570.1", "2026-11-22", cudatest.H200)); err != nil {
		t.Fatal(err)
	}
	product := kernels.Product(kernels.BF16, 4096, 4096)
	product.Layout = kernels.Transposed
	decode := kernels.Subject{Operation: kernels.AttentionDecode, DType: kernels.FP16,
		Dims: kernels.Dims{QueryHeads: 32, KVHeads: 8, HeadDim: 128}}
	if err := WriteTimes(&b, []Time{
		{Case: Case{product, 8}, Family: "gemv", Index: 1, Label: "4 warps 2 ahead", Seconds: 1e-5, Interval: [2]float64{9e-6, 1.1e-5}},
		{Case: Case{decode, 128}, Family: "decode", Label: "tensor_128 1 splits", Seconds: 6e-6, Interval: [2]float64{6e-6, 6e-6}},
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFile(t *testing.T) {
	const want = `{"format":1,"card":"NVIDIA H200","driver":"570.1","date":"2026-11-22","capability":90,"sms":132,"shared":232448,` +
		`"l2":62914560,"clock_mhz":1980,"bandwidth":4800000000000}
{"operation":"gemm","dtype":"bf16","n":4096,"k":4096,"layout":"nk","m":8,"family":"gemv","index":1,"label":"4 warps 2 ` +
		`ahead","seconds":0.00001,"interval":[0.000009,0.000011]}
{"operation":"attention-decode","dtype":"fp16","query_heads":32,"kv_heads":8,"head_dim":128,"m":128,"family":"decode","index":0,` +
		`"label":"tensor_128 1 splits","seconds":0.000006,"interval":[0.000006,0.000006]}
`
	text := file(t)
	if diff := cmp.Diff(want, text); diff != "" {
		t.Fatal(diff)
	}
	c, times, err := Read(strings.NewReader(text))
	if err != nil || c.Arch() != cudatest.H200 || len(times) != 2 || times[0].Label != "4 warps 2 ahead" || times[1].M != 128 {
		t.Errorf("read %+v, %+v, %v", c, times, err)
	}
	var again bytes.Buffer
	if err := WriteCard(&again, c); err != nil {
		t.Fatal(err)
	}
	if err := WriteTimes(&again, times); err != nil || again.String() != text {
		t.Errorf("written again: %v\n%s", err, again.String())
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"format":1`, `"format":2`, "line 1: format 2, expected 1"},
		{`"driver":"570.1"`, `"driver":""`, "line 1: card, driver or date is missing"},
		{`"l2":62914560`, `"l2":0`, `line 1: card "NVIDIA H200": capability, sms, shared, l2, clock_mhz or bandwidth is not positive`},
		{`"index":1`, `"index":-1`, "line 2: index is -1, expected at least 0"},
		{`"seconds":0.00001`, `"seconds":0.1`, "line 2: 0.1 seconds are outside of [9e-06 1.1e-05]"},
		{`"seconds":0.00001`, `"seconds":0`, "line 2: 0 seconds in [9e-06 1.1e-05], expected positive numbers"},
		{`"seconds":0.00001`, `"mhz":-1,"seconds":0.00001`, "line 2: -1 MHz, expected a clock or 0"},
		{`"m":8`, `"m":0`, "line 2: m is 0, expected at least 1"},
		{`"family":"decode"`, `"kernel":"decode"`, `line 3: json: unknown field "kernel"`},
		{`"m":128`, `"m":128} {`, "line 3: "},
		{"\n{\"operation\":\"attention", "\n{\"operation\":\"attention\n", "line 3: unexpected EOF"},
	} {
		text := strings.Replace(file(t), c.from, c.to, 1)
		if _, times, err := Read(strings.NewReader(text)); err == nil || times != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.to, err, c.want)
		}
	}
	first, _, _ := strings.Cut(file(t), "\n")
	for _, text := range []string{"", first} {
		if _, _, err := Read(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), "expected a card and at least one time") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(file(f)))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, times, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteCard(&b, c); err != nil {
			t.Fatal(err)
		}
		if err := WriteTimes(&b, times); err != nil {
			t.Fatal(err)
		}
		if card, again, err := Read(&b); err != nil || card != c || !reflect.DeepEqual(again, times) {
			t.Errorf("%+v, %+v: read again %+v, %+v, %v", c, times, card, again, err)
		}
	})
}
