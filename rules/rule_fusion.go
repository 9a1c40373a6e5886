package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Fusion is the rule that a fused product takes no longer than its parts.
const Fusion Rule = "fusion"

var fusionRule = rule{
	name:    Fusion,
	meaning: "a fused product takes longer than the product and its epilogue one after the other",
	claim:   "the product and then its epilogue are faster than the fused product",
	help: "A fused product is compared with the same kernel's product followed by the epilogue: `NAME-separate` is such a kernel " +
		"for `NAME`, at the same size in the same run. A size breaks the rule if it takes longer by more than `margin`. The audit " +
		"also says at which M fusing pays. Measure both, as in `--kernel auto,auto-separate`.",
	settings: []setting{number("margin", "smallest gain that counts", closed(0, 10),
		func(c *Config) *float64 { return &c.Rules.Fusion.Margin })},
	enabled: func(s *RuleSet) *bool { return &s.Fusion.Enabled },
	applies: func(s kernels.Subject) bool { return s.Epilogue != 0 },
	judge:   (*Facts).fusion,
	suspect: (*suspicion).fusion,
	bound:   func(c Config, _ Finding) float64 { return MarginLoss(c.Rules.Fusion.Margin) },
	cause:   fusionCause,
}

// separately returns the curve of a fused product's parts, or nil.
func (f *Facts) separately(c *infer.Curve) *infer.Curve {
	key := c.Series.Key
	key.Kernel = kernels.SeparateKernel(key.Kernel)
	if key.Epilogue == 0 || key.Kernel == "" || f.keyed[key] == nil || f.keyed[key].Wrong() {
		return nil
	}
	return f.keyed[key]
}

// judgedByFusion reports whether the rule fusion compares two kernels of a product, so that the rule alternative need not.
func (f *Facts) judgedByFusion(a, b *infer.Curve) bool {
	return f.Cfg.Rules.Fusion.Enabled && (f.separately(a) == b || f.separately(b) == a)
}

func (f *Facts) fusion(c *infer.Curve) []Judgement {
	parts := f.separately(c)
	if parts == nil {
		return nil
	}
	rows := f.fastest(c, []*infer.Curve{parts}, math.Log1p(f.Cfg.Rules.Fusion.Margin))
	for i := range rows {
		if o, ok := parts.At(c.Points[i].M); ok && rows[i].Tested {
			rows[i].same = math.Min(1, stats.Difference(c.Points[i].US, parts.Points[o].US).Beyond(0)*f.looks)
		}
	}
	return rows
}

func (s *suspicion) fusion(c *infer.Curve) []Judgement {
	parts := s.separately(c)
	if parts == nil {
		return nil
	}
	return s.fastest(c, []*infer.Curve{parts}, math.Log1p(s.Cfg.Rules.Fusion.Margin))
}

// fusionCause blames the choice of a kernel if the product alone runs another one.
func fusionCause(w *cause.Witness) (cause.Kind, string) {
	epilogue := w.Curve.Series.Key.Epilogue
	text := fmt.Sprintf("%s: %s runs the product and then %v", w.Versus(), w.Against.Kernel, epilogue)
	own, parts := w.Row.Label, w.Against.Label
	if own == "" || parts == "" || strings.HasPrefix(parts, own) {
		return cause.Implementation, text
	}
	return cause.HeuristicChoice, fmt.Sprintf("%s, and its product runs %s instead of %s", text, phrase.Kernel(parts), phrase.Kernel(own))
}

// FusingAnswer says whether fusing an epilogue into a product pays. Of all sizes that are said to pay or to cost, at most the
// audit's false discovery rate have equal times.
type FusingAnswer string

// The answers. Open: the times may be equal, or one is missing.
const (
	FusingPays  FusingAnswer = "pays"
	FusingCosts FusingAnswer = "costs"
	FusingOpen  FusingAnswer = "open"
)

// Fusing is a series of fused products compared with its parts.
type Fusing struct {
	Series results.SeriesKey `json:"series"`
	// Separate is the kernel that runs the product and then the epilogue.
	Separate string      `json:"separate"`
	Rows     []FusingRow `json:"rows"`
}

// FusingRow is one size of a [Fusing].
type FusingRow struct {
	M      int          `json:"m"`
	Answer FusingAnswer `json:"answer"`
	// Gain is the time of the parts ÷ that of the fused product, zero if unknown.
	Gain stats.Interval `json:"gain,omitzero"`
}

// FusingStretch is consecutive measured sizes with one answer.
type FusingStretch struct {
	FromM, ToM, Sizes int
	Answer            FusingAnswer
	// Most is the row whose gain is furthest from 1.
	Most FusingRow
}

// Stretches returns the rows as stretches, ascending.
func (f Fusing) Stretches() []FusingStretch {
	var out []FusingStretch
	far := func(r FusingRow) float64 {
		if r.Gain.Mid <= 0 {
			return 0
		}
		return math.Abs(math.Log(r.Gain.Mid))
	}
	for _, r := range f.Rows {
		last := len(out) - 1
		if last < 0 || out[last].Answer != r.Answer {
			out = append(out, FusingStretch{r.M, r.M, 1, r.Answer, r})
			continue
		}
		s := &out[last]
		s.ToM, s.Sizes = r.M, s.Sizes+1
		if far(r) > far(s.Most) {
			s.Most = r
		}
	}
	return out
}

// fusing returns the answers of the rule's panel.
func (pn *Panel) fusing(fdr float64) []Fusing {
	if pn.Rule != Fusion {
		return nil
	}
	var out []Fusing
	var tested []*FusingRow
	var same []float64
	for _, rows := range pn.Rows {
		if len(rows) == 0 {
			continue
		}
		key := rows[0].Curve.Series.Key
		f := Fusing{Series: key, Separate: kernels.SeparateKernel(key.Kernel), Rows: make([]FusingRow, len(rows))}
		for i := range rows {
			j := &rows[i]
			f.Rows[i] = FusingRow{M: j.M(), Answer: FusingOpen}
			if j.Tested && j.Loss.Hi < 1 {
				f.Rows[i].Gain = stats.Interval{Lo: 1 - j.Loss.Hi, Mid: 1 - j.Loss.Mid, Hi: 1 - j.Loss.Lo}
				tested, same = append(tested, &f.Rows[i]), append(same, j.same)
			}
		}
		out = append(out, f)
	}
	for i, p := range stats.AdjustP(same) {
		switch r := tested[i]; {
		case p > fdr:
		case r.Gain.Mid > 1:
			r.Answer = FusingPays
		default:
			r.Answer = FusingCosts
		}
	}
	slices.SortStableFunc(out, func(a, b Fusing) int { return strings.Compare(a.Series.String(), b.Series.String()) })
	return out
}

// settleFusing opens the answers of rows that lost time in the sweep but not when they were measured again.
func (a *Audit) settleFusing(again []SeriesProof) {
	for _, of := range again {
		i := slices.IndexFunc(a.Fusing, func(f Fusing) bool { return f.Series == of.Series })
		for _, row := range of.Rows {
			if i < 0 || row.Verdict == Anomalous {
				continue
			}
			rows := a.Fusing[i].Rows
			at := slices.IndexFunc(rows, func(r FusingRow) bool { return r.M == row.M })
			if at >= 0 && rows[at].Answer == FusingCosts {
				rows[at].Answer = FusingOpen
			}
		}
	}
}
