package mistral

import (
	"math"
	"slices"
)

// follower makes a session's tokens go through the experts of the float64 reference. Where two experts are nearly equal,
// rounding decides, and the other choice gives other logits that are no worse. The weights stay the session's.
type follower struct {
	router [][][]float64 // the reference's logits by layer and token
	from   int           // position of the first token
	// bound is the allowed error of a router's logits, relative to the range of the layer's.
	bound  float64
	ranges []float64 // of each layer
	// choices counts the rows' choices in all layers, rounded those that differ within the bound, and wrong those beyond.
	choices, rounded, wrong int
}

func newFollower(router [][][]float64, from int, bound float64) *follower {
	f := &follower{router: router, from: from, bound: bound}
	for _, layer := range router {
		low, high := math.Inf(1), math.Inf(-1)
		for _, row := range layer {
			low, high = math.Min(low, slices.Min(row)), math.Max(high, slices.Max(row))
		}
		f.ranges = append(f.ranges, high-low)
	}
	return f
}

// correct replaces choices of a layer that differ from the reference's. position is the first row's.
func (f *follower) correct(layer, position int, logits []float32, chosen []int, weights []float32, topK int) {
	rows := len(chosen) / topK
	experts := len(logits) / rows
	for row := range rows {
		own, ours := chosen[row*topK:][:topK], logits[row*experts:][:experts]
		var want []int
		for _, v := range mostLikely(f.router[layer][position-f.from+row], topK) {
			want = append(want, v.expert)
		}
		f.choices++
		least := math.Inf(1) // logit of an expert that both could have chosen
		for _, e := range want {
			least = math.Min(least, float64(ours[e]))
		}
		differ := false
		for _, e := range own {
			if slices.Contains(want, e) {
				continue
			}
			// Both logits may be off by the bound.
			if gap := float64(ours[e]) - least; !(gap >= 0 && gap <= 2*f.bound*f.ranges[layer]) {
				f.wrong++
			} else {
				f.rounded++
			}
			differ = true
			break
		}
		if differ {
			copy(own, want)
			copy(weights[row*topK:], shares(ours, want))
		}
	}
}
