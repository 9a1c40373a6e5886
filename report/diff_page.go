package report

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// DiffInput is the content of a comparison's folder. A and B are the data of its runs; when comparing two
// kernels of one run, both are that run's.
type DiffInput struct {
	Diff *diff.Result
	A, B infer.Data
	// Problems holds the problems of both runs; nil if they were not compared.
	Problems *problem.Changes
}

// WriteDiffFolder writes a comparison's folder at dir: index.html with both runs overlaid, report.md and
// diff.json. It has the guarantees of [Write].
func WriteDiffFolder(ctx context.Context, dir string, in DiffInput) error {
	return writeFolder(dir, func(tmp string) error {
		return writeFiles(ctx, tmp, []folderFile{
			{"index.html", func(w io.Writer) error { return newDiffPage(in).html(w, newDiffInteractive(in)) }},
			{"report.md", func(w io.Writer) error { return WriteDiff(w, Markdown, in.Diff, in.Problems) }},
			{"diff.json", func(w io.Writer) error { return writeJSON(w, diffValue{in.Diff, in.Problems}) }},
		})
	})
}

func newDiffPage(in DiffInput) *page {
	d := in.Diff
	p := &page{title: "GEMM comparison of " + d.A + " and " + d.B}
	p.summary = append(diffSentences(d, in.Problems), diffHead(d)...)
	p.summary = append(p.summary, diffMethod(d)...)
	p.summary = append(p.summary, warningNotes(d.Warnings)...)
	cases, series, factors := caseSheet(changedCases(d)), seriesDiffSheet(d), factorSheet(d)
	if len(cases.Rows) > 0 {
		p.add(section{heading: "Cases that changed", sheet: &cases, limit: pageRows, full: "diff.json"})
	}
	p.add(section{heading: "Series, time of B ÷ time of A", sheet: &series})
	if len(factors.Rows) > 0 {
		p.add(section{heading: "Conditions that differ", sheet: &factors})
	}
	return p
}

func changeRank(c change.Kind) int {
	return slices.Index([]change.Kind{change.Slower, change.New, change.SuspectedSlower, change.Faster, change.Fixed,
		change.SuspectedFaster,
		change.AtThreshold, change.Open, change.Same}, c)
}

// newDiffInteractive gathers the page's data: the series in both runs, changed ones first, with the rows of A
// and B.
func newDiffInteractive(in DiffInput) *interactive {
	d := &interactive{Title: Clean("GEMM comparison of " + in.Diff.A + " and " + in.Diff.B),
		Runs: []string{Clean(in.Diff.A), Clean(in.Diff.B)}}
	d.begin()
	compared := slices.Clone(in.Diff.Series)
	slices.SortStableFunc(compared, func(a, b diff.Series) int {
		return cmp.Or(cmp.Compare(changeRank(a.Change), changeRank(b.Change)), cmp.Compare(b.Slower, a.Slower),
			cmp.Compare(b.OverRows.Mid, a.OverRows.Mid))
	})
	cases := map[results.SeriesKey]map[int]*diff.Case{}
	for i := range in.Diff.Cases {
		c := &in.Diff.Cases[i]
		if cases[c.Series] == nil {
			cases[c.Series] = map[int]*diff.Case{}
		}
		cases[c.Series][c.M] = c
	}
	var sides [2][]results.Series
	inA, inB := seriesOf(in.A), seriesOf(in.B)
	for _, s := range compared {
		a, b := inA(s.InA), inB(s.Series)
		sides[0], sides[1] = append(sides[0], a), append(sides[1], b)
		for _, x := range []results.Series{a, b} {
			for _, r := range x.Rows {
				d.Samples += len(r.Samples)
			}
		}
	}
	d.columns.start(slices.Concat(sides[0], sides[1]))
	first := [2]int64{firstSample(sides[0]), firstSample(sides[1])}
	room := min(d.Samples, mostSamples)
	places := [2]map[results.SeriesKey]int{{}, {}}
	for i, s := range compared {
		places[0][s.InA], places[1][s.Series] = i, i
		out := interactiveSeries{Name: Clean(s.Series.Text()), Device: Clean(s.Series.Device), Kernel: Clean(s.Series.Kernel),
			Clock: in.Diff.Clocks[s.Series.Device]}
		for run := range sides {
			series := sides[run][i]
			d.columns.first = first[run]
			out.Peak = Clean(PeakText(series.Peak))
			block := interactiveBlock{Run: run, At: len(d.columns.m)}
			for _, r := range joined(NewCurve(series, nil), series) {
				c := cases[s.Series][r.verdict.M]
				if c != nil && !r.failed {
					us := c.B
					if run == 0 {
						us = c.A
					}
					if us.Mid > 0 {
						r.verdict.MFU.Mid *= r.verdict.US.Mid / us.Mid
						r.verdict.US = us
					}
				}
				changed := c != nil && c.Change.Changed()
				keep := d.Samples <= mostSamples || changed && len(r.samples) <= room
				if keep {
					room -= len(r.samples)
					d.Kept += len(r.samples)
				}
				d.add(r, keep, 0)
				d.addChange(c)
			}
			block.Rows = len(d.columns.m) - block.At
			if block.Rows > 0 {
				out.Blocks = append(out.Blocks, block)
			}
		}
		if out.Blocks == nil {
			out.Blocks = []interactiveBlock{{Run: 1, At: len(d.columns.m)}}
		}
		d.Series = append(d.Series, out)
	}
	d.diffFindings(in, places)
	return d
}

// seriesOf returns a function that finds a run's series by key; unknown keys give a series without rows.
func seriesOf(data infer.Data) func(key results.SeriesKey) results.Series {
	at := make(map[results.SeriesKey]int, len(data.Series))
	for i, s := range data.Series {
		at[s.Key] = i
	}
	return func(key results.SeriesKey) results.Series {
		if i, ok := at[key]; ok {
			return data.Series[i]
		}
		return results.Series{Key: key}
	}
}

// addChange stores a case's change (may be nil) for the row added last.
func (d *interactive) addChange(c *diff.Case) {
	var ratio stats.Interval
	var code uint8
	if c != nil {
		ratio, code = c.Ratio, changeCode(c.Change)
	}
	x := &d.columns
	x.ratio, x.ratioLo, x.ratioHi = append(x.ratio, positive(ratio.Mid)), append(x.ratioLo, positive(ratio.Lo)),
		append(x.ratioHi, positive(ratio.Hi))
	x.change = append(x.change, code)
}

func (d *interactive) diffFindings(in DiffInput, places [2]map[results.SeriesKey]int) {
	findings := slices.Clone(in.Diff.Findings)
	stake := func(f diff.Finding) float64 {
		if f.B != nil {
			return f.B.StakeUS
		}
		return f.A.StakeUS
	}
	findings = slices.DeleteFunc(findings, func(f diff.Finding) bool { return f.A == nil && f.B == nil })
	slices.SortStableFunc(findings, func(a, b diff.Finding) int {
		return cmp.Or(cmp.Compare(changeRank(a.Change), changeRank(b.Change)), cmp.Compare(stake(b), stake(a)))
	})
	for _, f := range findings {
		run, found, meta := 1, f.B, in.B.Meta
		if found == nil {
			run, found, meta = 0, f.A, in.A.Meta
		}
		at, ok := places[run][found.Series]
		if !ok {
			continue
		}
		x := newFinding(*found, at, meta, rules.MethodInterval)
		x.Run, x.Change = run, string(f.Change)
		d.Findings = append(d.Findings, x)
	}
	d.explain()
}
