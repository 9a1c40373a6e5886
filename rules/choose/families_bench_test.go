package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// familiesVariable names dense run files, separated by commas.
const familiesVariable = "FAMILIES"

func toldBy(s results.Series) results.Choices {
	var out results.Choices
	for _, r := range s.Rows {
		kind := results.LaunchKind{Label: r.Case.Label, Tile: r.Case.Launch.Tile, Split: r.Case.Launch.Split,
			Orientation: r.Case.Launch.Orientation}
		if tiles := kind.Tiles(r.Case.M, s.Key.N); tiles > 0 && r.Case.Launch.Waves > 0 {
			kind.Slots = math.Round(float64(tiles) / r.Case.Launch.Waves)
		}
		out = out.Add(r.Case.M, kind, true)
	}
	return out
}

// designed replays a dense run as a sweep of designed rows only. blocks counts the blocks of all rounds.
func designed(dense infer.Data, cfg rules.Config, seed uint64, choices map[results.SeriesKey]results.Choices) (sparse infer.Data,
	blocks int,
	err error) {
	const screening, most = 7, 35
	asked := map[results.SeriesKey][]int{}
	type place struct{ series, row int }
	at := map[results.CaseKey]place{}
	ceilings := map[string]kernels.Ceilings{}
	for i, s := range dense.Series {
		for k, r := range s.Rows {
			asked[s.Key] = append(asked[s.Key], r.Case.M)
			c := r.Case
			at[c.Key()] = place{i, k}
		}
		e := ceilings[s.Key.Device]
		e.ReadBandwidth = s.Bandwidth.Rate
		e.Peaks = append(e.Peaks, s.Peak)
		ceilings[s.Key.Device] = e
	}
	clocks := func() map[string]float64 { return dense.Meta.ReferenceClock }
	devices := dense.Meta.Fingerprint.Devices
	d := Designer{Config: cfg, Ceilings: ceilings, Devices: devices, Looks: infer.LooksAt(screening, most), Clocks: clocks, Seed: seed}
	rounds := map[int64]int{}
	var cases []results.Case
	add := func(key results.SeriesKey, ms []int) {
		for _, m := range ms {
			p := at[results.Case{SeriesKey: key, M: m}.Key()]
			c := dense.Series[p.series].Rows[p.row].Case
			cases = append(cases, c)
			rounds[c.ID] = screening
		}
	}
	for _, s := range dense.Series {
		seeds, err := d.Seeds(results.PlannedSeries{SeriesKey: s.Key, Ms: asked[s.Key]}, choices[s.Key])
		if err != nil {
			return sparse, 0, err
		}
		add(s.Key, seeds)
	}
	taken := func() (samples []results.Sample) {
		for _, c := range cases {
			p := at[c.Key()]
			row := dense.Series[p.series].Rows[p.row]
			samples = append(samples, row.Samples[:min(len(row.Samples), rounds[c.ID])]...)
		}
		return samples
	}
	for range 12 {
		further, _, err := d.look(asked, choices, cases, taken())
		if err != nil {
			return sparse, 0, err
		}
		if len(further) == 0 {
			break
		}
		for _, c := range further {
			add(c.SeriesKey, []int{c.M})
		}
	}
	chooser := OpenRows{Config: cfg, Ceilings: ceilings, Looks: infer.LooksAt(screening, most), Clocks: clocks, Asked: asked,
		Choices: choices,
		Devices: devices, Seed: seed}
	looks := append(results.Looks(screening, most), most)
	for i, to := range looks {
		if i == 0 && to <= screening {
			continue
		}
		open, err := chooser.Open(cases, taken())
		if err != nil {
			return sparse, 0, err
		}
		for _, id := range open {
			rounds[id] = to
		}
	}
	sparse = dense
	sparse.Meta.Seed, sparse.Asked, sparse.Choices = seed, asked, choices
	sparse.Series = chooser.series(cases, taken())
	for i, s := range sparse.Series {
		for _, r := range s.Rows {
			blocks += len(r.Samples)
		}
		for _, full := range dense.Series {
			if full.Key == s.Key {
				sparse.Series[i].Peak, sparse.Series[i].Bandwidth = full.Peak, full.Bandwidth
			}
		}
	}
	return sparse, blocks, nil
}

type score struct {
	rows, decided, equal, false int
	// short counts measured rows that stayed undecided because the file has no more rounds of them.
	short                                 int
	slow, found, estimated, near, covered int
	// foundShort counts slow rows that were measured but undecided for the same reason.
	foundShort int
}

// BenchmarkFamilies reports how much of dense runs a sweep with inference would have measured, and how
// accurate the rest would be. It replays the files: FAMILIES=cold.db,hot.db go test -run '^$' -bench Families
// ./rules
func BenchmarkFamilies(b *testing.B) {
	names := os.Getenv(familiesVariable)
	if names == "" {
		b.Skipf("%s=first.db,second.db names no runs", familiesVariable)
	}
	var sparse infer.Data
	for _, path := range strings.Split(names, ",") {
		run, err := results.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		dense, err := infer.LoadData(run)
		if err != nil {
			b.Fatal(err)
		}
		sparse = compareFamilies(b, path, dense)
		if err := run.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := rules.RunAudit(b.Context(), sparse, rules.Default(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func compareFamilies(b *testing.B, path string, dense infer.Data) infer.Data {
	b.Helper()
	cfg := rules.Default()
	choices := map[results.SeriesKey]results.Choices{}
	if os.Getenv("FAMILIES_UNTOLD") == "" {
		for _, s := range dense.Series {
			if choices[s.Key] = dense.Choices[s.Key]; len(choices[s.Key]) == 0 {
				choices[s.Key] = toldBy(s)
			}
		}
	}
	sparse, blocks, err := designed(dense, cfg, 1, choices)
	if err != nil {
		b.Fatal(err)
	}
	rowRule := cfg.Only(rules.Monotonic)
	full, err := rules.RunAudit(b.Context(), dense, rowRule, nil)
	if err != nil {
		b.Fatal(err)
	}
	got, err := rules.RunAudit(b.Context(), sparse, rowRule, nil)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("families of %s: blocks %d of %d, %.1f %%; %+v\n", path, blocks, dense.Samples(),
		100*float64(blocks)/float64(dense.Samples()), *got.Inference)
	for i, s := range full.Series {
		var c score
		verdict := map[int]rules.RowVerdict{}
		for _, r := range got.Series[i].Rows {
			verdict[r.M] = r
		}
		for _, r := range s.Rows {
			g, ok := verdict[r.M]
			c.rows++
			if r.Verdict == rules.Anomalous {
				c.slow++
				switch {
				case ok && (g.Verdict == rules.Anomalous || g.Verdict == rules.Marginal):
					c.found++
				case ok && g.Verdict == rules.Undecided && !g.Inferred && g.Samples == r.Samples:
					c.foundShort++
				}
			}
			if r.Verdict != rules.Marginal && r.Verdict != rules.Undecided && g.Verdict != rules.Marginal {
				c.decided++
				if ok && g.Verdict == r.Verdict {
					c.equal++
				} else if g.Verdict == rules.Undecided && !g.Inferred && g.Samples == r.Samples {
					c.short++
				} else if testing.Verbose() {
					fmt.Printf("  m%d %s instead of %s: MFU %.4f of %.4f instead of %.4f of %.4f, reference m%d instead of m%d, inferred "+
						"%v, us %.2f [%.2f %.2f] instead of %.2f\n", r.M, g.Verdict, r.Verdict,
						g.MFU.Mid, g.Expected, r.MFU.Mid, r.Expected, g.Reference, r.Reference, g.Inferred, g.US.Mid, g.US.Lo, g.US.Hi,
						r.US.Mid)
				}
				if g.Verdict == rules.Anomalous && r.Verdict == rules.Clean {
					c.false++
				}
			}
			if g.Inferred {
				c.estimated++
				if math.Abs(math.Log(g.US.Mid/r.US.Mid)) <= 0.01 {
					c.near++
				}
				own := math.Log(r.US.Hi/r.US.Lo) / 2
				if math.Abs(math.Log(g.US.Mid/r.US.Mid)) <= math.Hypot(own, math.Log(g.US.Hi/g.US.Lo)/2) {
					c.covered++
				}
			}
		}
		share := func(a, b int) float64 { return 100 * float64(a) / float64(max(b, 1)) }
		own, whole := 0, 0
		for _, d := range dense.Series {
			if d.Key == s.Key {
				whole += (infer.Data{Series: []results.Series{d}}).Samples()
			}
		}
		for _, d := range sparse.Series {
			if d.Key == s.Key {
				own += (infer.Data{Series: []results.Series{d}}).Samples()
			}
		}
		fmt.Printf("families of %s: blocks %.1f %%; equal verdicts %.2f %% of %d (%d false; %d undecided that need more rounds than the "+
			"file has count as unequal: %.2f %% without), anomalous found %.2f %% of %d (and %d undecided for want of rounds), inferred "+
			"within 1 %%: %.2f %% of %d, inside their interval %.1f %%; %+v\n",
			s.Key, share(own, whole), share(c.equal, c.decided), c.decided, c.false, c.short, share(c.equal, c.decided-c.short),
			share(c.found, c.slow), c.slow, c.foundShort, share(c.near, c.estimated), c.estimated, share(c.covered, c.estimated),
			*got.Series[i].Inference)
	}
	return sparse
}

func seedsOf(t testing.TB, d Designer, ms []int, choices results.Choices) []int {
	t.Helper()
	seeds, err := d.Seeds(results.PlannedSeries{SeriesKey: synthetic.Key, Ms: ms}, choices)
	if err != nil {
		t.Fatal(err)
	}
	return seeds
}

func BenchmarkLook(b *testing.B) {
	ms := synthetic.Grid(1, 32768, 1)
	w := synthetic.ByM(func(m int) float64 { us, _ := workshop(m); return us }, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(1, 2)))
	var choices results.Choices
	for _, m := range ms {
		_, kind := workshop(m)
		choices = choices.Add(m, kind, true)
	}
	d := Designer{Config: rules.Default(), Devices: []kernels.Spec{{ID: "sim", Units: 132}}, Seed: 7}
	var cases []results.Case
	var samples []results.Sample
	for _, s := range w.Sweep(seedsOf(b, d, ms, choices), 7).Series {
		for _, r := range s.Rows {
			_, kind := workshop(r.Case.M)
			r.Case.Label = kind.Label
			cases, samples = append(cases, r.Case), append(samples, r.Samples...)
		}
	}
	told := map[results.SeriesKey]results.Choices{synthetic.Key: choices}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.look(map[results.SeriesKey][]int{synthetic.Key: ms}, told, cases, samples); err != nil {
			b.Fatal(err)
		}
	}
}
