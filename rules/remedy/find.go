package remedy

import (
	"context"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// The rows among which remedies are sought.
const (
	// AmongFlagged takes the rows that the monotonic rule flags.
	AmongFlagged = "flagged"
	// AmongAll takes every row.
	AmongAll = "all"
)

// The remedies with a predicted gain that are candidates for execution.
const (
	// CandidatesLikely are remedies that gain by the bounds of their prediction.
	CandidatesLikely = "likely"
	// CandidatesAll are remedies that gain by the prediction itself.
	CandidatesAll = "all"
)

// The pads that are candidates.
const (
	// PadsInPlace are pads of rows with spare rows behind them.
	PadsInPlace = "in-place"
	// PadsCopied are pads of rows that are copied first.
	PadsCopied = "copied"
	// PadsBoth are both. If both pay, the copied one is kept, because every engine can run it.
	PadsBoth = "both"
)

// RemedyKinds are the kinds of remedies that are sought by default.
func RemedyKinds() []rules.RemedyKind {
	return []rules.RemedyKind{rules.RemedySplit, rules.RemedyPad, rules.RemedyPadN, rules.RemedyPadK, rules.RemedyOther,
		rules.RemedyAlgorithm}
}

// Options says how remedies are sought; zero fields take the rules file's values.
type Options struct {
	// Method is MethodInterval or MethodArticle.
	Method string
	// Threshold is the monotonic rule's, for AmongFlagged.
	Threshold float64
	// Ratio is the largest share of the direct time that a predicted remedy may take; 0 means 1/(1+margin).
	Ratio float64
	// Among is AmongFlagged or AmongAll; empty means AmongFlagged.
	Among string
	// MaxParts is the most launches of a split; the article's method always uses 2.
	MaxParts int
	// Candidates is CandidatesLikely or CandidatesAll; empty means CandidatesLikely.
	Candidates string
	// Kinds are the kinds of remedies that are sought; nil means all of [RemedyKinds].
	Kinds []rules.RemedyKind `json:",omitempty"`
	// Kernels are the engine's kernels: only their series are searched, and only they are remedies. A library
	// includes its algorithms. Nil searches all series and allows the remedies of [EngineKernels].
	Kernels []string `json:",omitempty"`
	// Pads is PadsInPlace, PadsCopied or PadsBoth; empty means PadsInPlace.
	Pads string `json:",omitempty"`
	// Fill measures a sample of the Ms between the swept ones, to decide whether a stretch holds for all of
	// them or only for the swept ones.
	Fill bool `json:",omitempty"`
	// SameBits keeps only remedies with the bits of the direct product. BatchInvariant keeps only remedies
	// whose result for a row is the same at other Ms.
	SameBits       bool `json:",omitempty"`
	BatchInvariant bool `json:",omitempty"`

	engine func(device, kernel string) bool // kernels to switch to
}

func (o Options) complete(cfg rules.Config) (Options, error) {
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
			return o, fmt.Errorf("splits: kind of remedy %q, expected split, pad, pad-n, pad-k, kernel or algorithm", k)
		}
	}
	switch {
	case o.Method != rules.MethodInterval && o.Method != rules.MethodArticle:
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

func (o Options) seeks(k rules.RemedyKind) bool { return o.Kinds == nil || slices.Contains(o.Kinds, k) }

func (o Options) has(kernel string) bool {
	if o.Kernels == nil || slices.Contains(o.Kernels, kernel) {
		return true
	}
	base, _ := kernels.SplitCandidate(kernel)
	return slices.Contains(o.Kernels, base)
}

// Find seeks remedies for slow rows: splits in two or more parts, padding, another kernel. Predictions
// come from the run. With a measurer it executes them as they would be used, interleaved with the direct
// product, and keeps those with a proven gain. Without one (nil), and always with the article's method, the
// remedies are predictions and marked as such.
//
// As with [rules.RunAudit], it returns the result so far together with an error of the measurer.
func Find(ctx context.Context, data infer.Data, cfg rules.Config, o Options, m rules.Measurer) (*Result, error) {
	o, err := o.complete(cfg)
	if err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	data = data.Along(cfg.Basis())
	o.engine = EngineKernels(data, o.Kernels)
	r := &Result{Schema: Schema, Run: data.Name, Method: o.Method, Splits: []Row{}, engine: o.engine}
	further := infer.FurtherChoices(data.Series)
	for _, s := range data.Series {
		if !further[s.Key] && o.has(s.Key.Kernel) {
			r.Searched = append(r.Searched, s.Key)
			r.Ranges = append(r.Ranges, rangeOf(s))
		}
	}
	rules.WarnWrong(data, r.warn)
	for _, name := range o.Kernels {
		if !slices.ContainsFunc(data.Series,
			func(s results.Series) bool { return Options{Kernels: []string{name}}.has(s.Key.Kernel) }) {
			r.warn("run", "the run has no series of the engine's kernel %q", name)
		}
	}
	if o.Method == rules.MethodArticle {
		for _, s := range data.Series {
			if !further[s.Key] && o.has(s.Key.Kernel) && o.seeks(rules.RemedySplit) {
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

func rangeOf(s results.Series) (r rules.Range) {
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

func articleSplitRows(s results.Series, o Options) []Row {
	points := rules.ArticlePoints(s)
	var among []bool
	if o.Among == AmongFlagged {
		_, among = rules.ArticleFlag(points, o.Threshold)
	}
	var rows []Row
	for _, sp := range rules.ArticleSplits(points, among, o.Ratio) {
		p := points[sp.At]
		rows = append(rows, Row{s.Key, rules.Remedy{Kind: rules.RemedySplit, M: p.M, Parts: sp.Parts, PredictedUS: sp.Predicted,
			DirectUS: p.Us}})
	}
	return rows
}

func (r *Result) warn(subject, format string, args ...any) {
	r.Warnings = append(r.Warnings, rules.Warning{Subject: subject, Text: fmt.Sprintf(format, args...)})
}
