package synthetic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// ChosenBadly is a library whose first choice is slow from m128 to m192, unlike its second next one.
// Elsewhere its candidates vary widely.
func ChosenBadly(kernelNames ...string) (infer.Data, *World) {
	var keys []results.SeriesKey
	for _, name := range kernelNames {
		keys = append(keys, Keyed(name, kernels.BF16))
	}
	data, w := Joined(keys, func(c results.Case) float64 {
		us := 200 + float64(c.M)
		switch {
		case c.Kernel == "lt:2" && c.M >= 128 && c.M <= 192:
		case strings.HasPrefix(c.Kernel, "lt:"):
			us *= 1.2 + float64(c.M%48)/32
		case c.M >= 128 && c.M <= 192 && c.Kernel == "lt":
			us *= 1.4
		}
		return us
	}, Grid(16, 768, 16), 4)
	for s := range data.Series {
		for i := range data.Series[s].Rows {
			c := &data.Series[s].Rows[i].Case
			c.Label, c.Launch = label(66, "128x256x64", 4),
				results.Launch{Tile: [3]int{256, 128, 64}, Waves: 0.97, Split: 1}
			if strings.HasPrefix(c.Kernel, "lt:") {
				c.Label, c.Launch = label(21, "128x64x64", 5),
					results.Launch{Tile: [3]int{64, 128, 64}, Waves: 1 + float64(c.M%7)/10, Split: 1}
			}
		}
	}
	return data, w
}

// label is written like cuBLASLt's.
func label(algorithm int, tile string, stages int) string {
	return fmt.Sprintf("algo %d tile %s stages %d splitk 1", algorithm, tile, stages)
}

// Joined is a run of several series on one machine, 8 rounds each; us is the true time of a case in
// microseconds.
func Joined(keys []results.SeriesKey, us func(results.Case) float64, ms []int, seed uint64) (infer.Data, *World) {
	w := &World{Time: us, noise: Student(0.01), RNG: rand.New(rand.NewPCG(seed, 1))}
	var data infer.Data
	for i, k := range keys {
		w.Key = k
		d := w.Sweep(ms, 8)
		for r := range d.Series[0].Rows {
			d.Series[0].Rows[r].Case.ID += int64(1000 * i)
		}
		data.Series = append(data.Series, d.Series...)
		if i == 0 {
			data.Sentinels = d.Sentinels
		}
	}
	data.Name = "joined"
	return data, w
}

// Keyed is [Key] with another kernel and data type.
func Keyed(kernel string, d kernels.DType) results.SeriesKey {
	k := Key
	k.Kernel, k.DType = kernel, d
	return k
}

// Once is a run of one sample per row: two kernels over a grid, with normal noise. us is the true time.
func Once(seed uint64, sigma float64, ms []int, us func(kernel string, m int) float64) infer.Data {
	rng := rand.New(rand.NewPCG(seed, 64))
	var d infer.Data
	seq := int64(0)
	for _, kernel := range []string{"a", "b"} {
		s := results.Series{Key: results.SeriesKey{Device: "cpu", Kernel: kernel, Subject: kernels.Product(kernels.BF16, 4096, 4096)}}
		for _, m := range ms {
			seq++
			c := results.Case{ID: seq, SeriesKey: s.Key, M: m}
			s.Rows = append(s.Rows, results.Row{Case: c,
				Samples: []results.Sample{{CaseID: seq, Seq: seq, US: us(kernel, m) * math.Exp(sigma*rng.NormFloat64()), Launches: 1}}})
		}
		d.Series = append(d.Series, s)
	}
	return d
}
