package advice

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Schema is the value of Advice.Schema.
const Schema = "gemmaudit.advice/1"

// Coverage says which parts the times of passes include.
type Coverage string

// The coverages.
const (
	Products   Coverage = "products"    // only the swept products
	KnownParts Coverage = "known parts" // products, and other parts that were swept or imported
	WholePass  Coverage = "whole pass"  // including a rest that was fitted to measured passes
)

// Subject is the model and device that an advice is about.
type Subject struct {
	Runs   []string `json:"runs"`
	Model  string   `json:"model"`
	TP     int      `json:"tp,omitempty"` // ranks that a layer is split over, 0 for one
	Layers int      `json:"layers"`
	Device string   `json:"device"`
	Card   string   `json:"card,omitempty"` // the device's name
	Kernel string   `json:"kernel"`
	DType  string   `json:"dtype"`
	Layout string   `json:"layout"`
	// ClockMHz is the clock of the parts' times, 0 if clocks are unknown.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// Sequences is the number of rows of parts that run only on last rows; 0 means all tokens of a pass.
	Sequences int `json:"sequences"`
}

// Options configure the advice.
type Options struct {
	Traffic results.Traffic // nil for flat in log M
	Sizes   int             // maximum number of sizes to capture
	Latency float64         // maximum seconds of a chunk, 0 for no limit
	MinGain float64         // minimum gain, as a share, of a size that is never worth running
	FDR     float64         // false discovery rate of such sizes
	Engines []string        // engines whose settings are written, of [Engines]
	// MaxTokens is the maximum number of tokens per pass, MaxSequences the maximum number of decoding
	// sequences; 0 if not given.
	MaxTokens, MaxSequences int
}

// Advice holds recommended engine settings with their reasons.
type Advice struct {
	Schema string `json:"schema"`
	Subject
	// Coverage says which parts the times include; Missing lists the others.
	Coverage Coverage `json:"coverage"`
	Missing  []string `json:"missing,omitempty"`
	Parts    []Part   `json:"parts"`
	Rest     *Rest    `json:"rest,omitempty"`
	Passes   []Pass   `json:"passes"`
	// Limits apply to all that follows. Sizes are in tokens. Decoding is in sequences of decode passes, nil
	// if Limits add no further bound.
	Limits   Limits  `json:"limits"`
	Sizes    Sizes   `json:"capture"`
	Decoding []int   `json:"capture_decoding,omitempty"`
	MinGain  float64 `json:"min_gain"`
	FDR      float64 `json:"fdr"`
	Skips    []Skip  `json:"never_run"`
	// Skipping is the saving of skipping Skips compared with running every known size; zero for none.
	Skipping Saving `json:"never_run_saving,omitzero"`
	Chunk    Chunk  `json:"chunk"`
	// Settings are engine settings ready to use.
	Settings []Setting       `json:"settings"`
	Warnings []rules.Warning `json:"warnings,omitempty"`
}

// Pass is the time over one M.
type Pass struct {
	M       int            `json:"m"`
	Seconds stats.Interval `json:"seconds"`
	// PartsSeconds is the time of the parts alone.
	PartsSeconds    float64        `json:"parts_seconds"`
	TokensPerSecond stats.Interval `json:"tokens_per_second"`
	// Inferred is true if the time of a part is interpolated from other Ms.
	Inferred bool `json:"inferred,omitempty"`
	// Scatter is the origin of the error, the weakest among the parts: a borrowed or assumed one proves
	// nothing.
	Scatter infer.ScatterOrigin `json:"scatter"`
}

const (
	mostDraws  = 300
	leastDraws = 40
	drawBudget = 1 << 20
)

// Advise computes the passes of parts, with a rest if whole passes were measured, and recommends settings.
// missing lists operations that no part covers.
func Advise(subject Subject, parts []Part, missing []string, measured Measured, o Options) (*Advice, error) {
	p, err := Sum(parts)
	if err != nil {
		return nil, err
	}
	a := &Advice{Schema: Schema, Subject: subject, Coverage: Products, Missing: missing, Parts: parts, MinGain: o.MinGain, FDR: o.FDR,
		Skips: []Skip{}, Settings: []Setting{}}
	for _, part := range parts {
		if part.Source == Imported || part.Series.N == 0 {
			a.Coverage = KnownParts
		}
	}
	if len(measured) > 0 {
		if a.Rest, err = p.AddRest(measured); err != nil {
			return nil, err
		}
		a.Coverage, a.Missing = WholePass, nil
		a.warnRest()
	}
	for i, m := range p.ms {
		size := p.chunkSize(i)
		a.Passes = append(a.Passes, Pass{M: m, Seconds: size.Seconds, PartsSeconds: p.parts[i], TokensPerSecond: size.TokensPerSecond,
			Inferred: p.inferred[i], Scatter: p.scatter[i]})
	}
	a.warnScatter()
	all, err := NewLoad(o.Traffic, p.ms[0], p.ms[len(p.ms)-1])
	if err != nil {
		return nil, err
	}
	draws := min(mostDraws, max(leastDraws, drawBudget/(len(p.ms)*max(1, o.Sizes))))
	random := rand.New(rand.NewPCG(1, uint64(len(p.ms))))
	a.Chunk = p.upTo(o.MaxTokens).AdviseChunk(o.Latency, draws, random.NormFloat64)
	a.Limits = Limits{Tokens: cmp.Or(a.Chunk.M, o.MaxTokens), Sequences: o.MaxSequences}
	a.Sizes = a.capture(p.upTo(a.Limits.Tokens), o, draws, random.NormFloat64)
	if most := a.Limits.sequences(); most != a.Limits.Tokens {
		a.Decoding = a.capture(p.upTo(most), o, 0, random.NormFloat64).Captured
	}
	if skips := p.AdviseSkips(o.MinGain, o.FDR); skips != nil {
		a.Skips, a.Skipping = skips, p.skipping(skips, all)
	}
	a.Settings = a.settings(o.Engines)
	if a.Sizes.Covered < 1 {
		a.warn("%.3g %% of the traffic is in batches above m%d, the largest known size within the limits, and is not covered",
			100*(1-a.Sizes.Covered), p.upTo(a.Limits.Tokens).last())
	}
	return a, nil
}

func (a *Advice) capture(p *Passes, o Options, draws int, normal func() float64) Sizes {
	load, err := NewLoad(o.Traffic, p.ms[0], p.last())
	if err != nil {
		a.warn("the traffic has no batch within the limit of %d tokens: sizes are for uniform traffic", p.last())
		load, _ = NewLoad(nil, p.ms[0], p.last()) // always has the smallest size
	}
	return p.AdviseSizes(load, o.Sizes, draws, o.MinGain, normal)
}

func (a *Advice) warnScatter() {
	few, weakest := 0, infer.OwnScatter
	for _, p := range a.Passes {
		if p.Scatter != infer.OwnScatter {
			few++
			weakest = weaker(weakest, p.Scatter)
		}
	}
	if few > 0 {
		a.warn("%s on times with too few samples, with %s noise: gains there are uncertain; measure each size at least five times",
			counted(few, "pass rests", "passes rest"), weakest)
	}
}

// looseScatter hides losses of some percent, so a fit predicts little.
const looseScatter = 0.03

// A pass is never much faster than its parts, except by its clock. A ratio of 100 means that it does not
// match them; milliseconds given as seconds are a factor of 1000.
const leastRatio, mostRatio = 0.1, 100

func (a *Advice) warnRest() {
	r := a.Rest
	if r.Scatter > looseScatter {
		a.warn("measured passes vary by %.1f %% around the fit: they are noisy, or parts come from another library or model", 100*r.Scatter)
	}
	if r.Ratio > mostRatio || r.Ratio < leastRatio {
		a.warn("measured passes take %.3g times as long as their parts (median): check that times are in seconds and of this model",
			r.Ratio)
	}
	if r.Faster {
		a.warn("at some size the measured passes take less time than their parts: their clock, library or model may differ from the runs")
	}
	if n := len(r.Outside); n > 0 {
		a.warn("%s outside the measured passes, m%d to m%d, and not covered: %s", counted(n, "known size lies", "known sizes lie"), r.FromM,
			r.ToM, Text(r.Outside))
	}
	if n := len(r.Unmatched); n > 0 {
		a.warn("%s at sizes where parts are unknown, and not used: %s", counted(n, "measured pass is", "measured passes are"),
			Text(r.Unmatched))
	}
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (a *Advice) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, rules.Warning{Subject: a.Model, Text: fmt.Sprintf(format, args...)})
}
