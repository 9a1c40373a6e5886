package mistral

import (
	"encoding/binary"
	"math"
	"slices"
)

// routing divides a pass's rows among experts. Entry i is one row's visit to one expert; entries are sorted by expert, and
// those of an expert by row.
type routing struct {
	rows    []int     // of each entry
	weights []float32 // of the expert's output
	first   []int     // first entry of each expert, and the number of entries
	entries [][]int   // of each row, by expert
}

// route returns the topK experts of each row of logits [rows, experts], and their weights, as transformers does: softmax over
// all experts in fp32, then the weights of the largest, divided by their sum. Of equal logits the first ones are larger. A NaN
// makes the row's weights NaN.
func route(logits []float32, experts, topK int) (chosen []int, weights []float32) {
	for values := range slices.Chunk(logits, experts) {
		best := largest(values, topK)
		chosen = append(chosen, best...)
		weights = append(weights, shares(values, best)...)
	}
	return chosen, weights
}

// largest returns the indexes of the n largest values in descending order. NaN is below all others.
func largest(values []float32, n int) []int {
	out := make([]int, 0, n+1)
	for i, v := range values {
		at := len(out)
		for at > 0 && (v > values[out[at-1]] || values[out[at-1]] != values[out[at-1]] && v == v) {
			at--
		}
		if at == n {
			continue
		}
		out = append(out, 0)
		copy(out[at+1:], out[at:])
		out[at] = i
		out = out[:min(len(out), n)]
	}
	return out
}

// shares returns the softmax of values at the chosen indexes, divided by its sum there.
func shares(values []float32, chosen []int) []float32 {
	top, all := values[chosen[0]], float32(0)
	for _, v := range values {
		all += float32(math.Exp(float64(v - top)))
	}
	out, sum := make([]float32, len(chosen)), float32(0)
	for i, c := range chosen {
		out[i] = float32(math.Exp(float64(values[c]-top))) / all
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// sorted makes a routing of the topK experts and weights of each row.
func sorted(chosen []int, weights []float32, experts, topK int) routing {
	r := routing{rows: make([]int, len(chosen)), weights: make([]float32, len(chosen)), first: make([]int, experts+1),
		entries: make([][]int, len(chosen)/topK)}
	for _, e := range chosen {
		r.first[e+1]++
	}
	for e := range experts {
		r.first[e+1] += r.first[e]
	}
	next := append([]int(nil), r.first...)
	for i, e := range chosen {
		at, row := next[e], i/topK
		next[e]++
		r.rows[at], r.weights[at] = row, weights[i]
		r.entries[row] = append(r.entries[row], at)
	}
	for _, entries := range r.entries {
		slices.Sort(entries)
	}
	return r
}

// count returns the number of an expert's entries.
func (r routing) count(expert int) int { return r.first[expert+1] - r.first[expert] }

// encoded returns what devices move rows by: each entry's row, then each row's entries, then their weights.
func (r routing) encoded() []byte {
	out := make([]byte, 0, 12*len(r.rows))
	for _, row := range r.rows {
		out = binary.LittleEndian.AppendUint32(out, uint32(row))
	}
	for _, entries := range r.entries {
		for _, i := range entries {
			out = binary.LittleEndian.AppendUint32(out, uint32(i))
		}
	}
	for _, entries := range r.entries {
		for _, i := range entries {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(r.weights[i]))
		}
	}
	return out
}

// routes is the session's route of many rows, on all processors.
func (s *Session) routes(logits []float32) (chosen []int, weights []float32) {
	experts, topK := s.m.config.Experts, s.m.config.TopK
	rows := len(logits) / experts
	chosen, weights = make([]int, rows*topK), make([]float32, rows*topK)
	each(rows, func(from, to int) {
		c, w := s.route(logits[from*experts:to*experts], experts, topK)
		copy(chosen[from*topK:], c)
		copy(weights[from*topK:], w)
	})
	return chosen, weights
}
