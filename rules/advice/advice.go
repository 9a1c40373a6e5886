package advice

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Schema is the value of Advice.Schema.
const Schema = "gemmaudit.advice/1"

// Coverage says what the times of passes are times of.
type Coverage string

// The coverages.
const (
	Products   Coverage = "products"    // the swept products alone
	KnownParts Coverage = "known parts" // the products, and other parts that were swept or imported
	WholePass  Coverage = "whole pass"  // with a rest that was fitted to measured passes
)

// Subject is what passes are passes of.
type Subject struct {
	Runs   []string `json:"runs"` // names of the run files
	Model  string   `json:"model"`
	TP     int      `json:"tp,omitempty"` // ranks that a layer is split over, 0 for one
	Layers int      `json:"layers"`
	Device string   `json:"device"`
	Card   string   `json:"card,omitempty"` // the device's name
	Kernel string   `json:"kernel"`
	DType  string   `json:"dtype"`
	Layout string   `json:"layout"`
	// ClockMHz is the clock that the parts' times hold at, 0 where clocks are not known.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// Sequences is how many rows the parts on last rows get, 0 for as many as a pass has tokens.
	Sequences int `json:"sequences"`
}

// Options say what to advise on.
type Options struct {
	Traffic results.Traffic // nil for flat in log M
	Sizes   int             // most sizes to capture
	Latency float64         // bound on the time of a chunk in seconds, 0 for none
	MinGain float64         // gain from which on a size is never worth running, as a share
	FDR     float64         // of the sizes that are named so
	Engines []string        // whose settings are written, of [Engines]
	// MaxTokens is the most tokens of a pass, MaxSequences the most sequences that decode; 0 where they were not given.
	MaxTokens, MaxSequences int
}

// Advice is what to set in an engine, and why.
type Advice struct {
	Schema string `json:"schema"`
	Subject
	// Coverage says what the times are times of, Missing what is not in them.
	Coverage Coverage `json:"coverage"`
	Missing  []string `json:"missing,omitempty"`
	Parts    []Part   `json:"parts"`
	Rest     *Rest    `json:"rest,omitempty"`
	Passes   []Pass   `json:"passes"`
	// Limits bound all that follows. Sizes are in tokens; Decoding are those of passes that decode, in sequences, nil where Limits do not
	// bound them further.
	Limits   Limits  `json:"limits"`
	Sizes    Sizes   `json:"capture"`
	Decoding []int   `json:"capture_decoding,omitempty"`
	MinGain  float64 `json:"min_gain"`
	FDR      float64 `json:"fdr"`
	Skips    []Skip  `json:"never_run"`
	// Skipping is what running none of Skips saves against running every known size; zero for none.
	Skipping Saving `json:"never_run_saving,omitzero"`
	Chunk    Chunk  `json:"chunk"`
	// Settings are those of engines, ready to use.
	Settings []Setting       `json:"settings"`
	Warnings []rules.Warning `json:"warnings,omitempty"`
}

// Pass is the time over one M.
type Pass struct {
	M       int            `json:"m"`
	Seconds rules.Interval `json:"seconds"`
	// PartsSeconds is that of the parts alone.
	PartsSeconds    float64        `json:"parts_seconds"`
	TokensPerSecond rules.Interval `json:"tokens_per_second"`
	// Inferred is true where the time of a part follows from other Ms.
	Inferred bool `json:"inferred,omitempty"`
	// Scatter is where the error comes from, the weakest origin of its parts: what is borrowed or assumed makes nothing sure.
	Scatter rules.ScatterOrigin `json:"scatter"`
}

// Draws of a choice: fewer where there are many sizes.
const (
	mostDraws  = 300
	leastDraws = 40
	drawBudget = 1 << 20 // sizes × sizes captured × draws
)

// Advise reckons the passes of parts, with a rest where whole passes were measured, and what to set.
// missing are names of what is in a pass and in no part.
func Advise(subject Subject, parts []Part, missing []string, measured Measured, o Options) (*Advice, error) {
	p, err := Sum(parts)
	if err != nil {
		return nil, err
	}
	a := &Advice{Schema: Schema, Subject: subject, Coverage: Products, Missing: missing, Parts: parts, MinGain: o.MinGain, FDR: o.FDR, Skips: []Skip{}, Settings: []Setting{}}
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
		a.Passes = append(a.Passes, Pass{M: m, Seconds: size.Seconds, PartsSeconds: p.parts[i], TokensPerSecond: size.TokensPerSecond, Inferred: p.inferred[i], Scatter: p.scatter[i]})
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
		a.warn("%.3g %% of the traffic is of batches above m%d, the largest size that is known and that the limits allow: nothing is said of them", 100*(1-a.Sizes.Covered), p.upTo(a.Limits.Tokens).last())
	}
	return a, nil
}

// capture advises on the sizes of p, by the traffic or, where none of it fits p, by a flat one.
func (a *Advice) capture(p *Passes, o Options, draws int, normal func() float64) Sizes {
	load, err := NewLoad(o.Traffic, p.ms[0], p.last())
	if err != nil {
		a.warn("no batch of the traffic has up to %d tokens, as the limits allow: sizes are those of a flat traffic", p.last())
		load, _ = NewLoad(nil, p.ms[0], p.last()) // has the smallest size
	}
	return p.AdviseSizes(load, o.Sizes, draws, o.MinGain, normal)
}

// warnScatter says which passes have no scatter of their own.
func (a *Advice) warnScatter() {
	few, weakest := 0, rules.OwnScatter
	for _, p := range a.Passes {
		if p.Scatter != rules.OwnScatter {
			few++
			weakest = weaker(weakest, p.Scatter)
		}
	}
	if few > 0 {
		a.warn("%s on times with too few samples, by %s scatter: no gain at these is sure; measure each size five times or more", counted(few, "pass rests", "passes rest"), weakest)
	}
}

// looseScatter is the scatter of measured passes from which on a fit foretells little: what is to be
// found, sizes that lose some per cent, is within it.
const looseScatter = 0.03

// leastRatio and mostRatio bound what measured passes take as a multiple of their parts. A pass takes no less than
// its parts, but for another clock, and one that takes a hundred times as much is none of theirs: milliseconds
// that are given as seconds are a thousand times as long.
const leastRatio, mostRatio = 0.1, 100

// warnRest says what of a rest is to be known.
func (a *Advice) warnRest() {
	r := a.Rest
	if r.Scatter > looseScatter {
		a.warn("measured passes scatter by %.1f %% about the fit: they are noisy, or parts are of another library or model", 100*r.Scatter)
	}
	if r.Ratio > mostRatio || r.Ratio < leastRatio {
		a.warn("measured passes take %.3g times what their parts do, in the median: are their times in seconds, and of this model?", r.Ratio)
	}
	if r.Faster {
		a.warn("at some size the measured passes take less than the parts by themselves: another clock, library or model than those of the runs")
	}
	if n := len(r.Outside); n > 0 {
		a.warn("%s outside of the measured passes, m%d to m%d, and nothing is said of them: %s", counted(n, "known size lies", "known sizes lie"), r.FromM, r.ToM, Text(r.Outside))
	}
	if n := len(r.Unmatched); n > 0 {
		a.warn("%s at sizes that the parts are not known at, and not used: %s", counted(n, "measured pass is", "measured passes are"), Text(r.Unmatched))
	}
}

// counted is a number with its words.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (a *Advice) warn(format string, args ...any) {
	a.Warnings = append(a.Warnings, rules.Warning{Subject: a.Model, Text: fmt.Sprintf(format, args...)})
}
