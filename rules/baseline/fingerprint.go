package baseline

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// SeriesIdentity describes a series independently of the machine: the model of its device instead of the
// device's id, then kernel, operation, types, shape, layout, regime and threads. Several devices of one model
// in a run keep their ids.
func SeriesIdentity(meta results.Meta, key results.SeriesKey) string {
	device, same := infer.Data{Meta: meta}.Spec(key.Device).Name, 0
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

// Fingerprint is a hash of the words as 16 hexadecimal digits.
func Fingerprint(words ...string) string {
	h := sha256.New()
	for _, w := range words {
		fmt.Fprintf(h, "%d:%s\n", len(w), w)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Octave is the stretch of M for the start of an interval in fingerprints: from 2^(k-1/2) to 2^(k+1/2). The
// start of an interval can move by a row between measurements. Cliffs follow multiples of tiles, which are
// far from the octaves' ends: 91, 182, 363, 725, 1449 and so on.
func Octave(m int) (from, to int) {
	k := math.Floor(math.Log2(float64(max(1, m))) + 0.5)
	return int(math.Ceil(math.Exp2(k - 0.5))), int(math.Floor(math.Exp2(k + 0.5)))
}

// Fingerprints are the fingerprints of findings of one run, in their order. A fingerprint covers the
// identity of the finding's series, its rule, and the octave of its start, but not its numbers. Findings
// equal in these are numbered by ascending M.
func Fingerprints(meta results.Meta, findings []rules.Finding) []string {
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
