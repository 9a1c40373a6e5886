package advice

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// UsualChunks are the chunk sizes that engines and their guides mention.
var UsualChunks = []int{512, 1024, 2048, 8192}

const shownChunks = 5

// Chunk is the advice on the prompt tokens per pass.
type Chunk struct {
	// LatencySeconds limits the upper bound of a pass's time; 0 for no limit.
	LatencySeconds float64 `json:"latency_seconds,omitempty"`
	// M is the size with the most tokens per second within the limit, 0 if there is none.
	M               int            `json:"m"`
	Seconds         stats.Interval `json:"seconds,omitzero"`
	TokensPerSecond stats.Interval `json:"tokens_per_second,omitzero"`
	// OverM is the known usual size with the most tokens per second within the limit, 0 for none. Gain is the
	// advised chunk's gain over it.
	OverM int            `json:"over_m,omitempty"`
	Gain  stats.Interval `json:"gain,omitzero"`
	Gains Gains          `json:"gains,omitempty"`
	// Best lists the best few, the advised one first; Usual compares with the usual sizes.
	Best  []ChunkSize  `json:"best"`
	Usual []UsualChunk `json:"usual"`
}

// Gains says whether an advice is worth following, by the interval of its gain.
type Gains string

// The values of Gains; it is empty without a comparison.
const (
	GainsSurely  Gains = "yes"        // the lower bound is above 1
	GainsUnsure  Gains = "not surely" // neither, or with borrowed or assumed scatter
	GainsNothing Gains = "no"         // the upper bound is at most 1
)

// sure is false if the scatter of a time is not its own, which is no proof.
func gainsOf(gain stats.Interval, sure bool) Gains {
	switch {
	case !sure:
		return GainsUnsure
	case gain.Lo > 1:
		return GainsSurely
	case gain.Hi <= 1:
		return GainsNothing
	}
	return GainsUnsure
}

// ChunkSize is a size with its rate.
type ChunkSize struct {
	M               int            `json:"m"`
	Seconds         stats.Interval `json:"seconds"`
	TokensPerSecond stats.Interval `json:"tokens_per_second"`
}

// UsualChunk compares the advised chunk with a usual one.
type UsualChunk struct {
	ChunkSize
	// Known is false if the size was not swept, or no pass is predicted there. The other fields are then
	// zero.
	Known bool `json:"known"`
	// WithinLatency reports whether its time is within the limit.
	WithinLatency bool `json:"within_latency"`
	// Saving is the advised chunk's saving per token over this one.
	Saving
	// BestM is the best chunk up to this size within the limit, 0 for none, and BestGain its rate ÷ this
	// one's.
	BestM    int            `json:"best_m_up_to,omitempty"`
	BestGain stats.Interval `json:"best_gain,omitzero"`
}

func (p *Passes) chunkSize(i int) ChunkSize {
	t, m := p.Seconds(i), float64(p.ms[i])
	return ChunkSize{M: p.ms[i], Seconds: t, TokensPerSecond: stats.Interval{Lo: m / t.Hi, Mid: m / t.Mid, Hi: m / t.Lo}}
}

// AdviseChunk finds the chunk with the most tokens per second whose time is surely within latency seconds, 0
// for any. draws is the number of repetitions; see the package comment.
func (p *Passes) AdviseChunk(latency float64, draws int, normal func() float64) Chunk {
	c := Chunk{LatencySeconds: latency, Best: []ChunkSize{}, Usual: []UsualChunk{}}
	within := make([]bool, len(p.ms))
	var allowed []int
	for i := range p.ms {
		if within[i] = latency == 0 || p.Seconds(i).Hi <= latency; within[i] {
			allowed = append(allowed, i)
		}
	}
	drawn := make([][]float64, draws)
	for k := range drawn {
		drawn[k] = p.drawn(normal)
	}
	ranked := slices.Clone(allowed)
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(p.rate(b, p.seconds), p.rate(a, p.seconds)) })
	for _, i := range ranked[:min(shownChunks, len(ranked))] {
		c.Best = append(c.Best, p.chunkSize(i))
	}
	if len(ranked) > 0 {
		c.M, c.Seconds, c.TokensPerSecond = c.Best[0].M, c.Best[0].Seconds, c.Best[0].TokensPerSecond
	}
	over := 0.0
	for _, m := range UsualChunks {
		i, known := slices.BinarySearch(p.ms, m)
		u := UsualChunk{ChunkSize: ChunkSize{M: m}, Known: known}
		if known {
			u.ChunkSize, u.WithinLatency = p.chunkSize(i), within[i]
			if len(ranked) > 0 {
				if u.Saving = nothing(1 / p.rate(i, p.seconds)); ranked[0] != i {
					log, sd := p.bestOver(allowed, i, drawn)
					u.Saving = saving(1/p.rate(i, p.seconds), 1/p.rate(ranked[0], p.seconds), log, sd, p.leastDF())
				}
			}
			if within[i] && (c.OverM == 0 || p.rate(i, p.seconds) > over) {
				c.OverM, c.Gain, c.Gains, over = m, u.Gain, gainsOf(u.Gain, ranked[0] == i || p.sure(i, ranked[0])), p.rate(i, p.seconds)
			}
			up, _ := slices.BinarySearch(allowed, i+1)
			if below := allowed[:up]; len(below) > 0 {
				u.BestM = p.ms[p.best(below, p.seconds)]
				if u.BestGain = nothing(0).Gain; u.BestM != m {
					log, sd := p.bestOver(below, i, drawn)
					u.BestGain = around(log, sd, p.leastDF())
				}
			}
		}
		c.Usual = append(c.Usual, u)
	}
	return c
}

func (p *Passes) rate(i int, seconds []float64) float64 { return float64(p.ms[i]) / seconds[i] }

func (p *Passes) best(among []int, seconds []float64) int {
	best := among[0]
	for _, i := range among[1:] {
		if p.rate(i, seconds) > p.rate(best, seconds) {
			best = i
		}
	}
	return best
}

// bestOver is the log ratio of the best rate to the i-th's, corrected for selection bias, with its standard
// error.
func (p *Passes) bestOver(among []int, i int, drawn [][]float64) (log, sd float64) {
	gain := func(best int, seconds []float64) float64 {
		return math.Log(p.rate(best, seconds) / p.rate(i, seconds))
	}
	excess := make([]float64, 0, len(drawn))
	for _, t := range drawn {
		best := p.best(among, t)
		excess = append(excess, gain(best, t)-gain(best, p.seconds))
	}
	bias, sd := meanAndDeviation(excess)
	return gain(p.best(among, p.seconds), p.seconds) - bias, sd
}
