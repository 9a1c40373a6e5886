package mistral

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

func TestRoute(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	half := float32(math.Log(2)) // one expert's weight is twice the other's
	for _, c := range []struct {
		logits        []float32
		experts, topK int
		rows          []int
		first         []int
		weights       []float32
	}{
		{[]float32{0, half}, 2, 1, []int{0}, []int{0, 0, 1}, []float32{1}},
		{[]float32{0, half}, 2, 2, []int{0, 0}, []int{0, 1, 2}, []float32{1. / 3, 2. / 3}},
		{[]float32{half, -9, 0, -8}, 4, 2, []int{0, 0}, []int{0, 1, 1, 2, 2}, []float32{2. / 3, 1. / 3}},
		// Of equal logits the first, and rows in order within an expert.
		{[]float32{5, 5, 5}, 3, 2, []int{0, 0}, []int{0, 1, 2, 2}, []float32{0.5, 0.5}},
		{[]float32{0, 9, 9, 0, 0, 9}, 2, 1, []int{1, 0, 2}, []int{0, 1, 3}, []float32{1, 1, 1}},
		// Large logits don't overflow.
		{[]float32{3e38, 3e38, -3e38}, 3, 3, []int{0, 0, 0}, []int{0, 1, 2, 3}, []float32{0.5, 0.5, 0}},
		{[]float32{nan, 1, 0}, 3, 2, []int{0, 0}, []int{0, 0, 1, 2}, []float32{nan, nan}},
		{[]float32{nan, nan, nan}, 3, 2, []int{0, 0}, []int{0, 1, 2, 2}, []float32{nan, nan}},
		{[]float32{inf, 1}, 2, 1, []int{0}, []int{0, 1, 1}, []float32{nan}},
	} {
		chosen, weights := route(c.logits, c.experts, c.topK)
		r := sorted(chosen, weights, c.experts, c.topK)
		near := func(a, b float32) bool { return a != a && b != b || math.Abs(float64(a-b)) < 1e-6 }
		if !slices.Equal(r.rows, c.rows) || !slices.Equal(r.first, c.first) || !slices.EqualFunc(r.weights, c.weights, near) {
			t.Errorf("%v, %d of %d: %+v, expected rows %v from %v with weights %v", c.logits, c.topK, c.experts, r, c.rows, c.first,
				c.weights)
		}
		for row, entries := range r.entries {
			other := func(i int) bool { return r.rows[i] != row }
			if len(entries) != c.topK || !slices.IsSorted(entries) || slices.ContainsFunc(entries, other) {
				t.Errorf("%v: entries of row %d are %v", c.logits, row, entries)
			}
		}
	}
}

// The largest of any values, NaN and equal ones among them, are those of a stable sort, with weights that add up to 1.
func TestRouteOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float32Range(-50, 50), rapid.SampledFrom([]float32{0, 1, -1, float32(math.NaN())}))
		logits := rapid.SliceOfN(value, 1, 20).Draw(t, "logits")
		n := rapid.IntRange(1, len(logits)).Draw(t, "n")
		order := make([]int, len(logits))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) }) // NaN last
		chosen, weights := route(logits, len(logits), n)
		if !slices.Equal(chosen, order[:n]) {
			t.Fatalf("chose %v, expected %v", chosen, order[:n])
		}
		sum, last := 0., math.Inf(1)
		for _, w := range weights {
			if float64(w) > last {
				t.Fatalf("weights %v are not in order", weights)
			}
			sum, last = sum+float64(w), float64(w)
		}
		nan := slices.ContainsFunc(logits, func(x float32) bool { return x != x })
		if nan != math.IsNaN(sum) || !nan && math.Abs(sum-1) > 1e-6 {
			t.Fatalf("weights %v add up to %g", weights, sum)
		}
	})
}

// SessionBytes is what loading checks against free memory.
func TestSessionBytesCoverExperts(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"mixtral-8x2-window", "mixtral-16x4", "llama-2"} {
		c, err := checkpoint.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Load(t.Context(), d, c, Options{DType: kernels.FP16})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []SessionOptions{{Positions: 1}, {Positions: 300}, {Positions: 900, Batch: 100}} {
			s, err := m.NewSession(o)
			if err != nil {
				t.Fatal(err)
			}
			held := int64(0)
			for _, b := range s.buffers {
				held += b.Bytes()
			}
			// The logits of routers begin at multiples of 128 elements, and some numbers stand alone.
			slack := int64(c.Config().Layers*routedStep*2 + 1024)
			if said := SessionBytes(c.Config(), kernels.FP16, o); held > said+slack || held < said-slack {
				t.Errorf("%s, %+v: %d bytes, SessionBytes says %d", name, o, held, said)
			}
			s.Close()
		}
		m.Close()
		c.Close()
	}
}

// faults are wrong routers. The fixtures must show each one, in one batch and token by token.
var faults = map[string]func(logits []float32, experts, topK int) ([]int, []float32){
	"none": route,
	"the expert after the chosen one": func(logits []float32, experts, topK int) ([]int, []float32) {
		chosen, weights := route(logits, experts, topK)
		for i := range chosen {
			chosen[i] = (chosen[i] + 1) % experts
		}
		return chosen, weights
	},
	"weights that do not add up to 1": func(logits []float32, experts, topK int) ([]int, []float32) {
		chosen, weights := route(logits, experts, topK)
		_, all := route(logits, experts, experts) // in the same order, with all others behind
		for i := range weights {
			weights[i] = all[i/topK*experts+i%topK]
		}
		return chosen, weights
	},
	"weights of another expert": func(logits []float32, experts, topK int) ([]int, []float32) {
		chosen, weights := route(logits, experts, topK)
		for row := range slices.Chunk(weights, topK) {
			slices.Reverse(row)
		}
		return chosen, weights
	},
	"one expert fewer": func(logits []float32, experts, topK int) ([]int, []float32) {
		chosen, weights := route(logits, experts, topK)
		for row := range slices.Chunk(weights, topK) {
			row[0], row[topK-1] = 1, 0
		}
		return chosen, weights
	},
}

func TestFixturesShowFaultsOfRouters(t *testing.T) {
	const name = "testdata/mixtral-8x2"
	var stored struct {
		Prompt []int32
		Logits []byte
	}
	data, err := os.ReadFile(name + "/reference.json")
	if err == nil {
		err = json.Unmarshal(data, &stored)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	vocab := c.Config().Vocab
	want := make([][]float64, len(stored.Prompt))
	for i := range want {
		want[i] = make([]float64, vocab)
		for j := range want[i] {
			want[i][j] = math.Float64frombits(binary.LittleEndian.Uint64(stored.Logits[8*(i*vocab+j):]))
		}
	}
	d, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := Load(t.Context(), d, c, Options{DType: kernels.BF16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	reference, err := Reference(t.Context(), c, stored.Prompt, 0)
	if err != nil {
		t.Fatal(err)
	}
	for fault, wrong := range faults {
		// With transformers' logits alone, and with the choices of the float64 reference.
		for _, expected := range []*Expected{{Logits: want}, {Logits: want, Router: reference.Router}} {
			for _, batch := range []int{0, 1} {
				s, err := m.NewSession(SessionOptions{Positions: len(want), Batch: batch})
				if err != nil {
					t.Fatal(err)
				}
				s.route = wrong
				found, err := s.Compare(t.Context(), stored.Prompt, expected, LogitBound(kernels.BF16))
				if err != nil {
					t.Fatal(err)
				}
				if found.Passed != (fault == "none") {
					t.Errorf("%s, batches of %d, router known %t: %+v", fault, batch, expected.Router != nil, found)
				}
				s.Close()
			}
		}
	}
}
