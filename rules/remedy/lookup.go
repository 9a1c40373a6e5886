package remedy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// reach is the largest distance of two measured Ms for a table to cover the Ms between them: 8, or a
// sixteenth of M if that is more. On a coarser grid the Ms between are unknown.
func reach(m int) int { return max(8, m/16) }

// BuildTable makes the lookup table of a run from the remedies that were executed and paid. meta gives the
// conditions under which it holds. It returns an error if the remedies don't fit one table: several devices,
// regimes or thread counts.
//
// It skips series that pack weights inside the timing, because an engine that uses a table has packed ahead,
// and operations other than a single matrix product, with or without an epilogue.
func BuildTable(meta results.Meta, splits *Result) (*table.Table, error) {
	created := meta.Created
	if created.IsZero() {
		created = time.Unix(0, 0)
	}
	t := &table.Table{Schema: table.Schema, Created: created.UTC().Format(time.RFC3339),
		Validators: table.Validators{Gemmaudit: meta.Gemmaudit}, Series: []table.Series{}}
	var first *results.SeriesKey
	index := map[results.SeriesKey]int{}
	at := func(key results.SeriesKey) (int, error) {
		if first == nil {
			first = &key
		}
		if key.Device != first.Device || key.Regime != first.Regime || key.Threads != first.Threads {
			return 0, fmt.Errorf("table: %q and %q have different devices, regimes or threads: a table is for one of each", first, key)
		}
		i, ok := index[key]
		if !ok {
			i = len(t.Series)
			index[key] = i
			t.Series = append(t.Series,
				table.Series{Product: served(key), Default: table.Action{Kind: table.Direct}, Intervals: []table.Interval{}})
		}
		return i, nil
	}
	for k, key := range splits.Searched {
		if !tabulated(key) {
			continue
		}
		i, err := at(key)
		if err != nil {
			return nil, err
		}
		if len(splits.Ranges) == len(splits.Searched) {
			t.Series[i].FromM, t.Series[i].ToM = splits.Ranges[k].FromM, splits.Ranges[k].ToM
		}
	}
	for _, s := range splits.Stretches {
		if !tabulated(s.Series) {
			continue
		}
		i, err := at(s.Series)
		if err != nil {
			return nil, err
		}
		t.Series[i].Intervals = append(t.Series[i].Intervals, intervalsOf(s)...)
	}
	t.Advice = adviceOf(splits)
	for _, s := range splits.Stretches {
		if s.Kind.PadsWeights() && first == nil {
			first = &s.Series
		}
	}
	if first != nil {
		t.Validators = ValidatorsOf(meta, first.Device, first.Regime, first.Threads)
	}
	t.Sort()
	t.Recount()
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	return t, nil
}

func tabulated(key results.SeriesKey) bool {
	return (key.Operation.IsProduct() || key.Epilogue != 0) && key.OverM() && key.Products == 0 && !key.PackInside
}

func served(key results.SeriesKey) table.Product {
	p := table.Product{Kernel: key.Kernel, DType: string(key.DType), Layout: key.Layout.String(), N: key.N, K: key.K}
	if key.Weights != (kernels.WeightFormat{}) {
		p.Weights = key.Weights.String()
	}
	if key.Epilogue != 0 {
		p.Epilogue = key.Epilogue.String()
	}
	return p
}

func subjectOf(p table.Product) (kernels.Subject, error) {
	s := kernels.Product(kernels.DType(p.DType), p.N, p.K)
	var err error
	if s.Layout, err = kernels.ParseLayout(p.Layout); err == nil && p.Weights != "" {
		s.Weights, err = kernels.ParseWeightFormat(p.Weights)
	}
	if err == nil && p.Epilogue != "" {
		s.Operation = s.Operation.WithEpilogue()
		s.Epilogue, err = kernels.ParseEpilogue(p.Epilogue)
	}
	return s, err
}

// actionOf is a stretch's remedy in a table's terms. A library's choice with unknown attributes becomes a
// kernel by its name.
func actionOf(s Stretch) table.Action {
	a := table.Action{Kind: table.Kind(s.Kind), First: s.Fixed, PadTo: s.PadTo, Kernel: s.Kernel, Algorithm: table.Attributes(s.Algorithm)}
	switch s.Kind {
	case rules.RemedyPad:
		a.Pad = cmp.Or(s.Pad, table.InPlace)
	case rules.RemedyAlgorithm:
		if s.Algorithm == (kernels.Algorithm{}) {
			a.Kind = table.Kernel
		}
	}
	return a
}

// Covered are the ranges of M of the stretch in a table, ascending. Ms between rows of too coarse a grid are
// not covered. A filled stretch is whole, and an OnlySwept one covers the swept Ms only.
func (s Stretch) Covered() []rules.Range {
	var out []rules.Range
	for _, iv := range s.intervals() {
		if n := len(out); n > 0 && out[n-1].ToM+1 == iv.From && !s.OnlySwept {
			out[n-1].ToM = iv.To
		} else {
			out = append(out, rules.Range{FromM: iv.From, ToM: iv.To})
		}
	}
	return out
}

// intervals cuts a stretch where its grid is too coarse, and where the grid's step changes: the new interval
// then begins after the last measured M.
func (s Stretch) intervals() []table.Interval {
	var out []table.Interval
	for i, m := range s.Ms {
		if i == 0 {
			out = append(out, table.Interval{From: m, To: m})
			continue
		}
		last, before := &out[len(out)-1], s.Ms[i-1]
		switch step := m - before; {
		case s.Filled:
			last.To, last.Filled = m, true
		case step > reach(before), step > 1 && s.OnlySwept:
			out = append(out, table.Interval{From: m, To: m})
		case last.From == last.To, last.Step == step:
			last.To, last.Step = m, step
		default:
			out = append(out, table.Interval{From: before + 1, To: m, Step: step})
		}
	}
	return out
}

func intervalsOf(s Stretch) []table.Interval {
	action := actionOf(s)
	out := s.intervals()
	for i := range out {
		out[i].Action = action
		if out[i].Step == 1 {
			out[i].Step = 0
		}
		for _, p := range s.Proofs {
			if out[i].From <= p.M && p.M <= out[i].To {
				out[i].Proofs = append(out[i].Proofs, table.Proof{M: p.M, DirectUS: p.DirectUS, RemedyUS: p.ExecutedUS.Mid,
					GainLo: p.Gain.Lo, GainMid: p.Gain.Mid, GainHi: p.Gain.Hi, Numerics: tabulatedNumerics(p.Numerics)})
			}
		}
	}
	return out
}

func tabulatedNumerics(n *results.Numerics) *table.Numerics {
	if n == nil {
		return nil
	}
	return &table.Numerics{
		DirectError: n.DirectError, RemedyError: n.RemedyError, SameBits: n.SameBits, BatchInvariant: n.BatchInvariant,
		DirectBatchInvariant: n.DirectBatchInvariant, OtherMs: n.OtherMs, Rows: n.Rows, Columns: n.Columns,
	}
}

// ValidatorsOf are the conditions of a run as tables store and compare them.
func ValidatorsOf(meta results.Meta, device string, regime results.Regime, threads int) table.Validators {
	f := meta.Fingerprint
	spec := infer.Data{Meta: meta}.Spec(device)
	v := table.Validators{Device: spec.Name, Kernel: f.Kernel, Regime: string(regime), Arch: f.Arch, CPUModel: f.CPUModel,
		Cores: spec.Units, Threads: threads,
		Features: slices.Clone(spec.Features), Gemmaudit: cmp.Or(meta.Gemmaudit, f.Gemmaudit)}
	for name, version := range spec.Versions {
		switch name {
		case "driver":
			v.Driver = version
		case "microcode", "vbios", "nvml", "cuda driver api": // they don't affect times, or the driver implies them
		default:
			if v.Libraries == nil {
				v.Libraries = map[string]string{}
			}
			v.Libraries[name] = version
		}
	}
	var policy []string
	if f.Governor != "" && !spec.Kind.Facts().Card {
		policy = append(policy, "governor "+f.Governor)
	}
	if f.Turbo != "" && !spec.Kind.Facts().Card {
		policy = append(policy, "turbo "+f.Turbo)
	}
	for _, name := range []string{"power limit", "application clock", "ecc", "mig"} {
		if value := spec.Settings[name]; value != "" {
			policy = append(policy, name+" "+value)
		}
	}
	v.ClockPolicy = strings.Join(policy, ", ")
	return v
}

// CompareValidators lists the conditions that differ between a table and a machine. A condition that the
// table leaves empty is not a difference.
func CompareValidators(held, here table.Validators) []results.FactorDiff {
	var out []results.FactorDiff
	compare := func(name, a, b string) {
		if a != "" && a != b {
			out = append(out, results.FactorDiff{Name: name, A: a, B: b})
		}
	}
	compare("device", held.Device, here.Device)
	compare("driver", held.Driver, here.Driver)
	for _, name := range slices.Sorted(maps.Keys(held.Libraries)) {
		compare(name, held.Libraries[name], here.Libraries[name])
	}
	compare("operating system kernel", held.Kernel, here.Kernel)
	compare("regime", held.Regime, here.Regime)
	compare("clock policy", held.ClockPolicy, here.ClockPolicy)
	compare("arch", held.Arch, here.Arch)
	compare("cpu model", held.CPUModel, here.CPUModel)
	features := func(v table.Validators) string {
		return strings.Join(slices.Sorted(slices.Values(v.Features)), " ")
	}
	compare("features", features(held), features(here))
	compare("gemmaudit", held.Gemmaudit, here.Gemmaudit)
	if held.Cores != 0 && held.Cores != here.Cores {
		compare("cores", fmt.Sprint(held.Cores), fmt.Sprint(here.Cores))
	}
	if held.Threads != 0 && held.Threads != here.Threads {
		compare("threads", fmt.Sprint(held.Threads), fmt.Sprint(here.Threads))
	}
	return out
}

// CheckVerdict is the result of checking a table's entry on this machine.
type CheckVerdict string

// The verdicts on entries.
const (
	Pays       CheckVerdict = "pays"      // the lower bound of the gain is above 1
	Rejected   CheckVerdict = "rejected"  // the upper bound is below 1 + margin
	PaysUnsure CheckVerdict = "undecided" // neither
	NotChecked CheckVerdict = "unchecked" // could not be measured
)
