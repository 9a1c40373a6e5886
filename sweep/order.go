package sweep

import (
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// source gives the same random numbers for a seed on every machine and in every version. The Go standard
// library fixes the PCG; drawing and shuffling are ours, since math/rand/v2 may change its own.
func source(seed uint64, stream ...uint64) *rand.PCG {
	mixed := seed
	for _, s := range stream {
		// The increments and multiplier of splitmix64 keep streams apart.
		mixed += s*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
		mixed = (mixed ^ mixed>>30) * 0xbf58476d1ce4e5b9
		mixed ^= mixed >> 27
	}
	return rand.NewPCG(seed, mixed)
}

// below draws a number in [0,n) by multiplication; the bias is below n/2⁶⁴.
func below(src *rand.PCG, n int) int {
	hi, _ := bits.Mul64(src.Uint64(), uint64(n))
	return int(hi)
}

func shuffle[T any](src *rand.PCG, v []T) {
	for i := len(v) - 1; i > 0; i-- {
		j := below(src, i+1)
		v[i], v[j] = v[j], v[i]
	}
}

const (
	streamRounds uint64 = iota + 1
	streamGroups
	streamShards
	streamFill
	streamMeasure
	streamFillers
	streamAllocation
	streamProcesses
)

// RoundOrder is the order of a round's cases on one device: a permutation of [0,cases). If memory can't hold
// all weights at once, group gives the set of each case; sets follow each other in random order. A nil group
// is one set.
func RoundOrder(seed uint64, round, cases int, group []int) []int {
	order := make([]int, cases)
	for i := range order {
		order[i] = i
	}
	shuffle(source(seed, streamRounds, uint64(round)), order)
	if group == nil {
		return order
	}
	sets := slices.Clone(group)
	slices.Sort(sets)
	sets = slices.Compact(sets)
	shuffle(source(seed, streamGroups, uint64(round)), sets)
	place := map[int]int{}
	for i, s := range sets {
		place[s] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return place[group[a]] - place[group[b]] })
	return order
}

// adjacent groups indices that must stay together: the requests of a group, and each other request alone.
func adjacent(requests []results.Request, members []int) (sets [][]int) {
	of := map[int]int{}
	for at, i := range members {
		group := requests[i].Group
		set, ok := of[group]
		if group == 0 || !ok {
			set = len(sets)
			of[group], sets = set, append(sets, nil)
		}
		sets[set] = append(sets[set], at)
	}
	return sets
}

// turn is an index in an order; first marks the start of a set.
type turn struct {
	at    int
	first bool
}

// shuffleSets draws the order of sets and of each set's members. A set of several processes has few switches:
// the members of a process follow each other. With back, it runs in the reverse of its previous order, so two
// rounds are ABBA.
func shuffleSets(src *rand.PCG, sets [][]int, process func(at int) string, back bool) iter.Seq[turn] {
	shuffle(src, sets)
	for _, set := range sets {
		mixed := slices.ContainsFunc(set, func(at int) bool { return process(at) != process(set[0]) })
		if mixed && back {
			slices.Reverse(set)
			continue
		}
		shuffle(src, set)
		if mixed {
			byProcess(set, process)
		}
	}
	return func(yield func(turn) bool) {
		for _, set := range sets {
			for i, at := range set {
				if !yield(turn{at, i == 0}) {
					return
				}
			}
		}
	}
}

// byProcess groups a set by process, in the order of each process's first member.
func byProcess(set []int, process func(at int) string) {
	place := map[string]int{}
	for _, at := range set {
		if _, ok := place[process(at)]; !ok {
			place[process(at)] = len(place)
		}
	}
	slices.SortStableFunc(set, func(a, b int) int { return place[process(a)] - place[process(b)] })
}

// Neighboring cases are dealt in hands of Count, at random within each hand. Shards then cost the same, and
// none gets only Ms of one residue, which would alias with tiles.
func (s Shard) keep(seed uint64, cases int) []bool {
	out := make([]bool, cases)
	if s.Count <= 1 {
		for i := range out {
			out[i] = true
		}
		return out
	}
	hand := make([]int, s.Count)
	for start := 0; start < cases; start += s.Count {
		for i := range hand {
			hand[i] = i
		}
		// The last hand may be short; the shuffle decides which shards get its cases.
		shuffle(source(seed, streamShards, uint64(start/s.Count)), hand)
		for i := start; i < min(cases, start+s.Count); i++ {
			out[i] = hand[i-start] == s.Index-1
		}
	}
	return out
}
