package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// pairVariable names two run files of one plan, separated by a comma: audits of one machine, optionally a
// third with --remedies all.
const pairVariable = "PAIR"

type pairRun struct {
	data     infer.Data
	rows     map[string]rules.Verdict // by the monotonic rule, on the sweep's samples at one clock
	proven   map[string]rules.Verdict // as shown by the audit, with its proof, at its own clock
	sweep    *rules.Audit
	findings []rules.Finding // with their proof
	remedies *remedy.Result
}

func rowName(key results.SeriesKey, m int) string { return fmt.Sprintf("%v/m%d", key, m) }

func readPair(b *testing.B, path string, cfg rules.Config) pairRun {
	b.Helper()
	a, _, _ := testApp()
	run, err := results.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer run.Close()
	var p pairRun
	if p.data, err = infer.LoadData(run); err != nil {
		b.Fatal(err)
	}
	p.data.Name = filepath.Base(path)
	own := cfg
	own.ClockMHz = 0
	proven, _, err := a.store(run).Audit(b.Context(), p.data, own, false)
	if err != nil {
		b.Fatal(err)
	}
	p.findings = proven.Findings
	p.proven = map[string]rules.Verdict{}
	for _, s := range proven.Series {
		for _, r := range s.Rows {
			p.proven[rowName(s.Key, r.M)] = r.Verdict
		}
	}
	if kept, _, err := a.store(run).Remedies(p.data, own); err == nil && kept != nil {
		p.remedies = kept.Result
	}
	if p.sweep, err = rules.RunAudit(b.Context(), p.data, cfg.Only(rules.Monotonic), nil); err != nil {
		b.Fatal(err)
	}
	p.rows = map[string]rules.Verdict{}
	for _, s := range p.sweep.Series {
		for _, r := range s.Rows {
			p.rows[rowName(s.Key, r.M)] = r.Verdict
		}
	}
	return p
}

// BenchmarkPair reports the agreement of two audits of one machine. It only reads run files.
// PAIR=cold.db,hot.db go test -run '^$' -bench Pair ./cmd/gemmaudit
func BenchmarkPair(b *testing.B) {
	paths := strings.Split(os.Getenv(pairVariable), ",")
	if len(paths) < 2 {
		b.Skipf("%s=first.db,second.db names no pair of runs", pairVariable)
	}
	cfg := rules.Default()
	first := readPair(b, paths[0], cfg)
	for _, mhz := range first.sweep.Clocks {
		cfg.ClockMHz = mhz
	}
	x, y := readPair(b, paths[0], cfg), readPair(b, paths[1], cfg)
	for b.Loop() {
		diff.Compare(x.data, y.data, rules.Default())
	}
	pairVerdicts("sweeps at one clock", x.rows, y.rows)
	pairVerdicts("audits as shown", x.proven, y.proven)
	pairFindings(x, y)
	pairDiff(b, x, y)
	for _, p := range []pairRun{x, y} {
		pairRemedies(p)
	}
	if len(paths) > 2 {
		pairCandidates(y, readPair(b, paths[2], cfg))
	}
}

func pairVerdicts(what string, x, y map[string]rules.Verdict) {
	var both, either, lenient, lenientEither, contradictions, rows float64
	count := map[rules.Verdict][2]int{}
	for name, v := range x {
		w := y[name]
		rows++
		for k, verdict := range []rules.Verdict{v, w} {
			n := count[verdict]
			n[k]++
			count[verdict] = n
		}
		one, other := v == rules.Anomalous, w == rules.Anomalous
		if one || other {
			either++
			// Either verdict is right for a marginal row.
			if one && other || v == rules.Marginal || w == rules.Marginal {
				lenient++
			}
			lenientEither++
		}
		if one && other {
			both++
		}
		if one && w == rules.Clean || other && v == rules.Clean {
			contradictions++
		}
	}
	fmt.Printf("pair verdicts, %s: %v rows; anomalous %v, marginal %v, undecided %v; anomalous in both ÷ either %.3f, with marginal as "+
		"either %.3f; contradictions %v\n",
		what, rows, count[rules.Anomalous], count[rules.Marginal], count[rules.Undecided], both/either, lenient/lenientEither,
		contradictions)
}

func pairFindings(x, y pairRun) {
	type key struct {
		rule   rules.Rule
		series results.SeriesKey
		m, ref int
	}
	at := map[key]stats.Interval{}
	for _, f := range x.findings {
		if f.Status == rules.Confirmed {
			at[key{f.Rule, f.Series, f.WorstM, f.ReferenceM}] = f.Loss
		}
	}
	n, overlap, unknown, all := 0, 0, 0, 0
	var widths []float64
	for _, p := range []pairRun{x, y} {
		for _, f := range p.findings {
			all++
			if f.Cause == cause.Unknown {
				unknown++
			}
			if f.Status == rules.Confirmed {
				widths = append(widths, 50*(f.Loss.Hi-f.Loss.Lo))
			}
		}
	}
	same := map[key]bool{}
	for _, f := range y.findings {
		k := key{f.Rule, f.Series, f.WorstM, f.ReferenceM}
		loss, ok := at[k]
		if !ok || f.Status != rules.Confirmed || same[k] {
			continue
		}
		same[k] = true
		n++
		if loss.Lo <= f.Loss.Hi && f.Loss.Lo <= loss.Hi {
			overlap++
		}
	}
	fmt.Printf("pair findings: %d and %d; %d confirmed in both at the same row with the same reference, intervals overlap in %.1f %%; "+
		"median half-width %.2f points; cause unknown in %.1f %%\n",
		len(x.findings), len(y.findings), n, 100*float64(overlap)/float64(max(n, 1)), medianOf(widths),
		100*float64(unknown)/float64(max(all, 1)))
}

// pairDiff compares the runs, unchanged and with a tenth of the cases slowed by 5 %.
func pairDiff(b *testing.B, x, y pairRun) {
	d, err := diff.Compare(x.data, y.data, rules.Default())
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("pair diff: %d cases, %.2f %% the same, %d slower, %d faster, %d undecided; between runs %.2f %%; gate failed %v\n",
		len(d.Cases), 100*float64(d.Same)/float64(max(len(d.Cases), 1)), d.Slower, d.Faster, d.Undecided, 100*d.BetweenRuns, d.Gate)
	slowed := y.data
	slowed.Series = nil
	is := map[string]bool{}
	for _, s := range y.data.Series {
		s.Rows = append([]results.Row(nil), s.Rows...)
		for i := range s.Rows {
			h := fnv.New32a()
			fmt.Fprint(h, rowName(s.Key, s.Rows[i].Case.M))
			if h.Sum32()%10 != 0 {
				continue
			}
			is[rowName(s.Key, s.Rows[i].Case.M)] = true
			s.Rows[i].Samples = append([]results.Sample(nil), s.Rows[i].Samples...)
			for k := range s.Rows[i].Samples {
				s.Rows[i].Samples[k].US *= 1.05
			}
		}
		slowed.Series = append(slowed.Series, s)
	}
	if d, err = diff.Compare(x.data, slowed, rules.Default()); err != nil {
		b.Fatal(err)
	}
	found, wrong := 0, 0
	for _, c := range d.Cases {
		switch slower := c.Change == change.Slower; {
		case slower && is[rowName(c.Series, c.M)]:
			found++
		case slower:
			wrong++
		}
	}
	fmt.Printf("pair slowed by 5 %%: %d of %d cases found (%.1f %%), %d others called slower\n", found, len(is),
		100*float64(found)/float64(max(len(is), 1)), wrong)
}

func pairRemedies(p pairRun) {
	if p.remedies == nil {
		return
	}
	paid, executed := 0, 0
	for _, rows := range [][]remedy.Row{p.remedies.Splits, p.remedies.Rejected} {
		for _, r := range rows {
			if r.Executed {
				executed++
			}
			if r.Pays {
				paid++
			}
		}
	}
	fmt.Printf("pair remedies of %s: %d executed, %d pay (%.1f %%), %d untried\n", p.data.Name, executed, paid,
		100*float64(paid)/float64(max(executed, 1)), p.remedies.Untried)
}

// pairCandidates counts the rows with a remedy among all candidates that also have one among the likely ones.
func pairCandidates(likely, all pairRun) {
	if likely.remedies == nil || all.remedies == nil {
		return
	}
	has := map[string]bool{}
	for _, r := range likely.remedies.Splits {
		has[rowName(r.Series, r.M)] = true
	}
	n, found := 0, 0
	for _, r := range all.remedies.Splits {
		n++
		if has[rowName(r.Series, r.M)] {
			found++
		}
	}
	fmt.Printf("pair candidates: of %d rows with a remedy that pays among all candidates, %d (%.1f %%) have one among the likely\n", n,
		found, 100*float64(found)/float64(max(n, 1)))
}

func medianOf(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}
