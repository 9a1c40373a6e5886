package report

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// verdictTitle is the title of a table of [verdictSheet].
func verdictTitle(what string, a *rules.Audit) string {
	if rule := rowRule(a); rule != "" {
		return fmt.Sprintf("%s: rows as the %s rule judges them", what, rule)
	}
	return what
}

// heldAgainst counts the rows of a series that lie in one of its findings, of any rule.
func heldAgainst(own []*rules.Finding, s rules.SeriesAudit) int {
	rows := 0
	for _, f := range own {
		rows += f.Rows
	}
	if len(s.Rows) == 0 {
		return min(rows, s.Cases)
	}
	n := 0
	for _, r := range s.Rows {
		if slices.ContainsFunc(own, func(f *rules.Finding) bool { return f.FromM <= r.M && r.M <= f.ToM }) {
			n++
		}
	}
	return n
}

// intervalText prints an interval of M.
func intervalText(from, to int) string {
	if from == to {
		return itoa(from)
	}
	return itoa(from) + "–" + itoa(to)
}

// padText says to what a product is padded, and that its rows are copied.
func padText(to int, pad table.PadKind) string {
	if pad == table.Copied {
		return "copy, pad to " + itoa(to)
	}
	return "pad to " + itoa(to)
}

// algorithmText names an algorithm by those of its attributes that are not what they mostly are.
func algorithmText(a kernels.Algorithm) string {
	text := "algorithm " + itoa(a.ID)
	for _, f := range []struct {
		name         string
		value, usual int
	}{
		{"tile", a.Tile, 0}, {"stages", a.Stages, 0}, {"split-K", a.SplitK, 1}, {"reduction", a.Reduction, 0},
		{"swizzle", a.Swizzle, 0}, {"custom", a.Custom, 0}, {"inner", a.Inner, 0}, {"cluster", a.Cluster, 0},
	} {
		if f.value != f.usual {
			text += " " + f.name + " " + itoa(f.value)
		}
	}
	return text
}

// remedyText says in few words what to do instead.
func remedyText(r rules.Remedy) string {
	switch r.Kind {
	case rules.RemedySplit:
		return results.JoinInts(r.Parts, "+")
	case rules.RemedyPad:
		return padText(r.PadTo, r.Pad)
	case rules.RemedyAlgorithm:
		if r.Algorithm != (kernels.Algorithm{}) {
			return "use " + r.Kernel + " " + algorithmText(r.Algorithm)
		}
		return "use " + r.Kernel
	case rules.RemedyOther:
		return "use " + r.Kernel
	}
	return string(r.Kind)
}

// gainOf is the measured gain where there is one, else the predicted.
func gainOf(r rules.Remedy) any {
	switch {
	case r.Executed:
		return r.Gain
	case r.PredictedUS > 0 && r.DirectUS > 0:
		return predicted(r.DirectUS / r.PredictedUS)
	}
	return nil
}

// gainText is [gainOf] as tables show it.
func gainText(r rules.Remedy) string {
	return toCell(cellOf(field.Bounds, field.Factor, gainOf(r))).Text()
}

// predicted is a ratio that nobody has measured.
type predicted float64

func (p predicted) Text() string { return "≈" + factor(p).Text() }

func (p predicted) Raw() any { return finite(float64(p)) }

// verdictSheet has one row a series: how its rows were judged, and the highest MFU
// among them, as it was observed, and relative to the peak at the common clock. The
// elasticity is the median over the rows.
func verdictSheet(a *rules.Audit) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "cases", Key: "cases", Align: Right},
		{Name: "anomalous", Key: "anomalous", Align: Right},
		{Name: "clean", Key: "clean", Align: Right}, {Name: "marginal", Key: "marginal", Align: Right}, {Name: "undecided", Key: "undecided", Align: Right}, {Name: "unjudged", Key: "unjudged", Align: Right}, {Name: "findings", Key: "findings", Align: Right},
		{Name: "rows affected", Key: "rows_in_findings", Align: Right}, {Name: "best MFU", Key: "best_mfu", Align: Right}, {Name: "observed", Key: "best_mfu_observed", Align: Right}, {Name: "at clock", Key: "best_mfu_at_clock", Align: Right},
		{Name: "bimodal", Key: "bimodal", Align: Right}, {Name: "elasticity", Key: "elasticity", Align: Right, Wide: true},
	}}
	if a.Inference != nil {
		s.Columns = append(s.Columns, Column{Name: "inferred", Key: "inferred", Align: Right}, Column{Name: "checked", Key: "checked_inside", Align: Right})
	}
	findings := rules.FindingsBySeries(a.Whole().Findings)
	for _, series := range a.Series {
		own := findings[series.Key]
		row := []any{seriesCell(series.Key), series.Cases, len(series.Flagged), nil, nil, nil, nil, len(own), heldAgainst(own, series), nil, nil, nil, nil, nil}
		if a.Inference != nil {
			row = append(row, nil, nil)
			if i := series.Inference; i != nil {
				row[14] = i.Inferred
				if i.Checked > 0 {
					row[15] = share(i.Share())
				}
			}
		}
		if len(series.Rows) > 0 {
			clean, marginal, undecided, unjudged := 0, 0, 0, 0
			best := series.Rows[0]
			bimodal := 0
			var betas []float64
			for _, r := range series.Rows {
				switch r.Verdict {
				case rules.Clean:
					clean++
				case rules.Marginal:
					marginal++
				case rules.Undecided:
					undecided++
				case rules.Unjudged:
					unjudged++
				}
				if r.MFU.Mid > best.MFU.Mid {
					best = r
				}
				if len(r.Modes) > 0 {
					bimodal++
				}
				betas = append(betas, r.Elasticity)
			}
			row[3], row[4], row[5], row[6] = clean, marginal, undecided, unjudged
			if !series.RelativeMFU {
				row[9] = share(best.MFU.Mid)
			}
			if best.MFUAtClock.Mid > 0 {
				row[11] = share(best.MFUAtClock.Mid)
			}
			if best.ObservedUS.Mid > 0 && !series.RelativeMFU {
				row[10] = share(observedMFU(best))
			}
			row[12] = unlessZero(bimodal)
			if a.Clocks[series.Key.Device] > 0 {
				row[13] = number{median(betas), 2}
			}
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// observedMFU is the MFU of a row by its time as it was observed.
func observedMFU(r rules.RowVerdict) float64 {
	if r.ObservedUS.Mid > 0 {
		return r.MFU.Mid * r.US.Mid / r.ObservedUS.Mid
	}
	return r.MFU.Mid
}
