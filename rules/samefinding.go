package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// SeriesIdentity says in words what a series is wherever it is measured: the model of its device in place of
// the device's id, then kernel, operation, types, shape, layout, regime and threads. Several devices of one
// model in a run are told apart by their ids.
func SeriesIdentity(meta results.Meta, key results.SeriesKey) string {
	device, same := Data{Meta: meta}.spec(key.Device).Name, 0
	for _, s := range meta.Fingerprint.Devices {
		if s.Name == device {
			same++
		}
	}
	if same > 1 {
		device += " " + key.Device
	}
	key.Device = cmp.Or(device, key.Device)
	text := key.String()
	if key.Threads > 0 {
		text += fmt.Sprintf(" threads %d", key.Threads)
	}
	return text
}

// Fingerprint is a name of 16 hexadecimal digits for what the words say, equal for equal words.
func Fingerprint(words ...string) string {
	h := sha256.New()
	for _, w := range words {
		fmt.Fprintf(h, "%d:%s\n", len(w), w)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Octave is the stretch of M in which an interval of M begins, as fingerprints have it: from 2^(k-1/2) to
// 2^(k+1/2). Measured again, an interval begins a row earlier or later. Cliffs stand behind
// multiples of tiles, and the borders of octaves, 91, 182, 363, 725, 1449 and so on, far from those.
func Octave(m int) (from, to int) {
	k := math.Floor(math.Log2(float64(max(1, m))) + 0.5)
	return int(math.Ceil(math.Exp2(k - 0.5))), int(math.Floor(math.Exp2(k + 0.5)))
}

// FindingFingerprints are the fingerprints of findings of one run, in their order. A fingerprint is made of what
// a finding is and of none of its numbers: the identity of its series, its rule, and the octave in which it
// begins. Findings that are equal in these are counted, by ascending M.
func FindingFingerprints(meta results.Meta, findings []Finding) []string {
	byM := make([]int, len(findings))
	for i := range byM {
		byM[i] = i
	}
	slices.SortStableFunc(byM, func(a, b int) int { return cmp.Compare(findings[a].FromM, findings[b].FromM) })
	seen := map[string]int{}
	out := make([]string, len(findings))
	for _, i := range byM {
		f := findings[i]
		from, _ := Octave(f.FromM)
		words := []string{"finding", SeriesIdentity(meta, f.Series), string(f.Rule), fmt.Sprint(from)}
		out[i] = Fingerprint(words...)
		seen[out[i]]++
		if n := seen[out[i]]; n > 1 {
			out[i] = Fingerprint(append(words, fmt.Sprint(n))...)
		}
	}
	return out
}
