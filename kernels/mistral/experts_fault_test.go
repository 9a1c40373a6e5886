package mistral

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

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
		r := route(c.logits, c.experts, c.topK)
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

// faults are wrong routers. The fixtures must show each one, in one batch and token by token.
var faults = map[string]func(logits []float32, experts, topK int) routing{
	"the expert after the chosen one": func(logits []float32, experts, topK int) routing {
		shifted := make([]float32, len(logits))
		for i := range logits {
			row, e := i/experts, i%experts
			shifted[row*experts+(e+1)%experts] = logits[i]
		}
		return route(shifted, experts, topK)
	},
	"weights that do not add up to 1": func(logits []float32, experts, topK int) routing {
		r, all := route(logits, experts, topK), route(logits, experts, experts)
		for e := range experts {
			for i := r.first[e]; i < r.first[e+1]; i++ {
				at := all.first[e] + r.rows[i] // all experts have all rows
				r.weights[i] = all.weights[at]
			}
		}
		return r
	},
	"weights of another expert": func(logits []float32, experts, topK int) routing {
		r := route(logits, experts, topK)
		for _, entries := range r.entries {
			a, b := entries[0], entries[len(entries)-1]
			r.weights[a], r.weights[b] = r.weights[b], r.weights[a]
		}
		return r
	},
	"one expert fewer": func(logits []float32, experts, topK int) routing {
		r := route(logits, experts, topK)
		for _, entries := range r.entries {
			r.weights[entries[0]] = 0
		}
		return r
	},
	"none": route,
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
	for fault, wrong := range faults {
		for _, batch := range []int{0, 1} {
			s, err := m.NewSession(SessionOptions{Positions: len(want), Batch: batch})
			if err != nil {
				t.Fatal(err)
			}
			s.route = wrong
			found, err := s.Compare(t.Context(), stored.Prompt, want, LogitBound(kernels.BF16))
			if err != nil {
				t.Fatal(err)
			}
			if found.Passed != (fault == "none") {
				t.Errorf("%s, batches of %d: %+v", fault, batch, found)
			}
			s.Close()
		}
	}
}
