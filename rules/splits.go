package rules

import (
	"context"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// The rows among which remedies are sought.
const (
	// AmongFlagged takes the rows that the monotonic rule flags.
	AmongFlagged = "flagged"
	// AmongAll takes every row.
	AmongAll = "all"
)

// Which of the remedies that are predicted to gain are candidates for being executed.
const (
	// CandidatesLikely are those that gain by the bounds of their prediction.
	CandidatesLikely = "likely"
	// CandidatesAll are those that gain by the prediction itself.
	CandidatesAll = "all"
)

// Which pads are candidates.
const (
	// PadsInPlace are those of rows that have room behind them.
	PadsInPlace = "in-place"
	// PadsCopied are those of rows that are copied first.
	PadsCopied = "copied"
	// PadsBoth are both. Where both pay, the copied one is kept, which every engine can run.
	PadsBoth = "both"
)

// RemedyKinds are the kinds of remedies that are sought where none are named.
func RemedyKinds() []RemedyKind {
	return []RemedyKind{RemedySplit, RemedyPad, RemedyOther, RemedyAlgorithm}
}

// SplitOptions says how remedies are sought; zero fields mean what the rules
// file says.
type SplitOptions struct {
	// Method is MethodInterval or MethodArticle.
	Method string
	// Threshold is the monotonic rule's, for AmongFlagged.
	Threshold float64
	// Ratio is the largest share of the direct time that a predicted remedy may
	// take to be kept; 0 means 1/(1+margin).
	Ratio float64
	// Among is AmongFlagged or AmongAll; empty means AmongFlagged.
	Among string
	// MaxParts is the most launches of a split; the article's method always uses 2.
	MaxParts int
	// Candidates is CandidatesLikely or CandidatesAll; empty means CandidatesLikely.
	Candidates string
	// Kinds are the kinds of remedies that are sought; nil means all of [RemedyKinds].
	Kinds []RemedyKind `json:",omitempty"`
	// Kernels are those that the engine has: series of others are not searched, and no other one
	// takes over. A library stands for its algorithms. Nil means all.
	Kernels []string `json:",omitempty"`
	// Pads is PadsInPlace, PadsCopied or PadsBoth; empty means PadsInPlace.
	Pads string `json:",omitempty"`
	// Fill measures a sample of the Ms between those that were swept, so that a stretch holds for
	// all of them or for those alone that were swept.
	Fill bool `json:",omitempty"`
	// SameBits and BatchInvariant leave out remedies whose result is not known to have the bits of
	// the direct product, or to be the same for a row at other Ms.
	SameBits       bool `json:",omitempty"`
	BatchInvariant bool `json:",omitempty"`
}

// complete fills in what was left open and refuses what can't be used.
func (o SplitOptions) complete(cfg Config) (SplitOptions, error) {
	if o.Method == "" {
		o.Method = cfg.Method
	}
	if o.Threshold == 0 {
		o.Threshold = cfg.Threshold
	}
	if o.Ratio == 0 {
		o.Ratio = 1 / (1 + cfg.Remedy.Margin)
	}
	if o.Among == "" {
		o.Among = AmongFlagged
	}
	if o.MaxParts == 0 {
		o.MaxParts = cfg.Remedy.MaxParts
	}
	if o.Candidates == "" {
		o.Candidates = CandidatesLikely
	}
	if o.Pads == "" {
		o.Pads = PadsInPlace
	}
	if o.Kinds == nil {
		o.Kinds = RemedyKinds()
	}
	for _, k := range o.Kinds {
		if !slices.Contains(RemedyKinds(), k) {
			return o, fmt.Errorf("splits: kind of remedy %q, expected split, pad, kernel or algorithm", k)
		}
	}
	switch {
	case o.Method != MethodInterval && o.Method != MethodArticle:
		return o, fmt.Errorf("splits: method %q, expected interval or article", o.Method)
	case !(o.Threshold > 0 && o.Threshold <= 1):
		return o, fmt.Errorf("splits: threshold %v, expected above 0 and at most 1", o.Threshold)
	case !(o.Ratio > 0 && o.Ratio <= 1):
		return o, fmt.Errorf("splits: ratio %v, expected above 0 and at most 1", o.Ratio)
	case o.Among != AmongFlagged && o.Among != AmongAll:
		return o, fmt.Errorf("splits: among %q, expected flagged or all", o.Among)
	case o.Candidates != CandidatesLikely && o.Candidates != CandidatesAll:
		return o, fmt.Errorf("splits: candidates %q, expected likely or all", o.Candidates)
	case o.Pads != PadsInPlace && o.Pads != PadsCopied && o.Pads != PadsBoth:
		return o, fmt.Errorf("splits: pads %q, expected in-place, copied or both", o.Pads)
	case o.MaxParts < 2 || o.MaxParts > 16:
		return o, fmt.Errorf("splits: %d parts, expected 2 to 16", o.MaxParts)
	}
	return o, nil
}

// seeks says whether remedies of a kind are sought.
func (o SplitOptions) seeks(k RemedyKind) bool { return o.Kinds == nil || slices.Contains(o.Kinds, k) }

// has says whether the engine has a kernel.
func (o SplitOptions) has(kernel string) bool {
	if o.Kernels == nil || slices.Contains(o.Kernels, kernel) {
		return true
	}
	base, _ := kernels.SplitCandidate(kernel)
	return slices.Contains(o.Kernels, base)
}

// FindSplits seeks remedies for slow rows: splits in two or more parts, padding,
// another kernel. Predictions come from the run. With a measurer they are
// executed as they would be used, interleaved with the direct product, and only
// those whose gain is proven stay; without one (nil), and always with the
// article's method, they are predictions and say so.
//
// As with [RunAudit], an error of the measurer comes beside the result so far.
func FindSplits(ctx context.Context, data Data, cfg Config, o SplitOptions, m Measurer) (*SplitsResult, error) {
	o, err := o.complete(cfg)
	if err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	r := &SplitsResult{Schema: SplitsSchema, Run: data.Name, Method: o.Method, Splits: []SplitRow{}}
	further := furtherChoices(data.Series)
	for _, s := range data.Series {
		if !further[s.Key] && o.has(s.Key.Kernel) {
			r.Searched = append(r.Searched, s.Key)
			r.Ranges = append(r.Ranges, rangeOf(s))
		}
	}
	warnWrong(data, r.warn)
	for _, name := range o.Kernels {
		if !slices.ContainsFunc(data.Series, func(s results.Series) bool { return SplitOptions{Kernels: []string{name}}.has(s.Key.Kernel) }) {
			r.warn("run", "the run has no series of kernel %q, which the engine has", name)
		}
	}
	if o.Method == MethodArticle {
		for _, s := range data.Series {
			if !further[s.Key] && o.has(s.Key.Kernel) && o.seeks(RemedySplit) {
				r.Splits = append(r.Splits, articleSplitRows(s, o)...)
			}
		}
	} else {
		err = findRemedies(ctx, r, data, cfg, o, m)
	}
	r.Weigh(data)
	r.AddSustained(data, cfg)
	return r, err
}

// rangeOf is the first and the last M of a series that has samples; zeros for none.
func rangeOf(s results.Series) (r Range) {
	for _, row := range s.Rows {
		if len(row.Samples) == 0 {
			continue
		}
		if r.FromM == 0 {
			r.FromM = row.Case.M
		}
		r.ToM = row.Case.M
	}
	return r
}

func articleSplitRows(s results.Series, o SplitOptions) []SplitRow {
	points := articlePoints(s)
	var among []bool
	if o.Among == AmongFlagged {
		_, among = articleFlag(points, o.Threshold)
	}
	var rows []SplitRow
	for _, sp := range articleSplits(points, among, o.Ratio) {
		p := points[sp.at]
		rows = append(rows, SplitRow{s.Key, Remedy{Kind: RemedySplit, M: p.m, Parts: sp.parts, PredictedUS: sp.predicted, DirectUS: p.us}})
	}
	return rows
}

func (r *SplitsResult) warn(subject, format string, args ...any) {
	r.Warnings = append(r.Warnings, Warning{subject, fmt.Sprintf(format, args...)})
}
