package trust

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Losses returns the losses planted in data sets to measure detection.
func Losses() []float64 { return []float64{0.08, 0.15} }

const (
	// plantedEvery is the period of slow rows.
	plantedEvery          = 8
	fleetCards, fleetRuns = 8, 3
)

// Verdicts counts one command's verdicts on data sets of one kind.
type Verdicts struct {
	Command string `json:"command"` // audit, diff, fleet or check
	// False counts the data sets without slow rows in which something is called slow. A set is a pair of runs
	// for diff, all runs for fleet, one run for check.
	False Rate `json:"false"`
	// Undecided counts the undecided rows, cases or cards of those sets.
	Undecided Count `json:"undecided"`
	// Found counts by [Losses] the planted rows, cases or cards that are called slow, Missed those called
	// clean, the same or fine.
	Found  []Count `json:"found"`
	Missed []Count `json:"missed"`
}

// DataResult holds all commands' verdicts on one kind.
type DataResult struct {
	DataKind
	Commands []Verdicts `json:"commands"`
}

var dataCommands = []struct {
	name    string
	measure Measure
}{{"audit", AuditFalse}, {"diff", DiffFalse}, {"fleet", FleetFalse}, {"check", CheckFalse}}

// Rates returns all counts as rates.
func (r DataResult) Rates() (out []Rate) {
	for _, c := range r.Commands {
		out = append(out, c.False, newRate(r.Name, Measure(c.Command+"-undecided"), c.Undecided, 0))
		for i, loss := range Losses() {
			out = append(out, newRate(r.Name, Measure(fmt.Sprintf("%s-found-%g", c.Command, loss)), c.Found[i], 0),
				newRate(r.Name, Measure(fmt.Sprintf("%s-missed-%g", c.Command, loss)), c.Missed[i], 0))
		}
	}
	return out
}

// Of returns a command's verdicts.
func (r DataResult) Of(command string) Verdicts {
	for _, c := range r.Commands {
		if c.Command == command {
			return c
		}
	}
	return Verdicts{Command: command}
}

// RunData runs the commands on data sets of each kind. The result depends only on the seed, not on the number
// of workers.
func RunData(ctx context.Context, kinds []DataKind, sets int, seed uint64, cfg rules.Config, workers int) ([]DataResult, error) {
	out := make([]DataResult, len(kinds))
	for k, kind := range kinds {
		out[k] = DataResult{DataKind: kind, Commands: newVerdicts()}
	}
	var mu sync.Mutex
	err := inParallel(ctx, workers, sets*len(kinds), func(_ context.Context, i int) error {
		kind, set := i/sets, i%sets
		got, err := kinds[kind].examine(seed, set, cfg)
		if err != nil {
			return fmt.Errorf("data set %d of %s: %w", set, kinds[kind].Name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for c := range got {
			out[kind].Commands[c].add(got[c])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for k := range out {
		for c := range out[k].Commands {
			f := &out[k].Commands[c].False
			*f = newRate(out[k].Name, dataCommands[c].measure, f.Count, MostFalse)
		}
	}
	return out, nil
}

// newVerdicts has no counts of any command.
func newVerdicts() []Verdicts {
	out := make([]Verdicts, len(dataCommands))
	for c := range out {
		out[c] = Verdicts{Command: dataCommands[c].name, Found: make([]Count, len(Losses())), Missed: make([]Count, len(Losses()))}
	}
	return out
}

func (v *Verdicts) add(x Verdicts) {
	v.False.merge(x.False.Count)
	v.Undecided.merge(x.Undecided)
	for i := range x.Found {
		v.Found[i].merge(x.Found[i])
		v.Missed[i].merge(x.Missed[i])
	}
}

type generator struct {
	kind DataKind
	r    *rand.Rand
	made int
}

func (k DataKind) generator(seed uint64, set int) *generator {
	h := fnv.New64a()
	h.Write([]byte(k.Name))
	return &generator{kind: k, r: rand.New(rand.NewPCG(seed, h.Sum64()+uint64(set)))}
}

func (g *generator) card() card {
	c := card{rows: make([]float64, dataRows)}
	for i := range c.rows {
		c.rows[i] = g.r.Float64()
	}
	return c
}

var began = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// second is true for the second run of a pair.
func (g *generator) data(of card, loss float64, slow func(row int) bool, second bool) infer.Data {
	order := g.kind.order
	if order == nil {
		order = shuffled
	}
	samples := order(g.r, cmp.Or(g.kind.rounds, dataRounds))
	for _, add := range g.kind.noise {
		add(g.r, samples, of, second)
	}
	key := results.SeriesKey{Device: "g", Kernel: "lib", Subject: kernels.Product(kernels.BF16, weightsN, weightsK)}
	s := results.Series{Key: key, Rows: make([]results.Row, dataRows)}
	for i := range s.Rows {
		s.Rows[i].Case = results.Case{ID: int64(i + 1), SeriesKey: key, M: 64 * (i + 1)}
	}
	at := began.Add(time.Duration(g.made) * time.Minute)
	g.made++
	for i, x := range samples {
		us := 21.5 * float64(x.row+1) * math.Exp(x.off)
		if slow(x.row) {
			us /= 1 - loss
		}
		if step := g.kind.step; step > 0 {
			us = math.Max(step, step*math.Round(us/step))
		}
		sample := results.Sample{CaseID: int64(x.row + 1), Phase: results.PhaseSweep, Round: x.round, Seq: int64(i), Launches: 1, US: us,
			StartedUnixMicro: at.Add(time.Duration(i) * time.Millisecond).UnixMicro()}
		if x.disturbed {
			sample.Disturbance = kernels.Disturbance{Preempted: 3}.String()
		}
		row := &s.Rows[x.row]
		row.Samples = append(row.Samples, sample)
	}
	for i := range s.Rows {
		slices.SortFunc(s.Rows[i].Samples, func(a, b results.Sample) int { return a.Round - b.Round })
	}
	series := []results.Series{s}
	if g.kind.along {
		series = overN(s)
	}
	return infer.Data{Name: "set", Meta: results.Meta{Source: "a table of others", Created: at}, Series: series}
}

// overN turns a curve over M into series with one M each, whose N differ as the M did.
func overN(s results.Series) []results.Series {
	out := make([]results.Series, len(s.Rows))
	for i, r := range s.Rows {
		key := s.Key
		key.N, r.Case.M = r.Case.M, key.N
		r.Case.SeriesKey = key
		out[i] = results.Series{Key: key, Rows: []results.Row{r}}
	}
	return out
}

func none(int) bool { return false }
func all(int) bool  { return true }

// The first row is never slow, since others are compared with it.
func planted(row int) bool { return row%plantedEvery == plantedEvery/2+1 }

func (k DataKind) examine(seed uint64, set int, cfg rules.Config) ([]Verdicts, error) {
	g := k.generator(seed, set)
	out := newVerdicts()
	if err := g.audits(&out[0], cfg); err != nil {
		return nil, err
	}
	if err := g.diffs(&out[1], cfg); err != nil {
		return nil, err
	}
	g.fleets(&out[2], &out[3])
	return out, nil
}

func (g *generator) audits(v *Verdicts, cfg rules.Config) error {
	a, err := rules.RunAudit(context.Background(), g.data(g.card(), 0, none, true), cfg, nil)
	if err != nil {
		return err
	}
	v.False.add(a.Invalid == "" && len(a.Findings) > 0)
	v.Undecided = Count{a.Undecided, len(a.Series[0].Rows)}
	for i, loss := range Losses() {
		a, err := rules.RunAudit(context.Background(), g.data(g.card(), loss, planted, true), cfg, nil)
		if err != nil {
			return err
		}
		found := map[int]bool{}
		for _, f := range a.Findings {
			for _, row := range a.Series[0].Rows {
				if f.FromM <= row.M && row.M <= f.ToM {
					found[row.M] = true
				}
			}
		}
		for k, row := range a.Series[0].Rows {
			if planted(k) {
				v.Found[i].add(a.Invalid == "" && found[row.M])
				v.Missed[i].add(a.Invalid == "" && !found[row.M] && row.Verdict == rules.Clean)
			}
		}
	}
	return nil
}

func (g *generator) diffs(v *Verdicts, cfg rules.Config) error {
	of := g.card()
	d, err := diff.Compare(g.data(of, 0, none, false), g.data(of, 0, none, true), cfg)
	if err != nil {
		return err
	}
	v.False.add(d.Gate || d.Invalid == "" && d.SuspectsSlower())
	v.Undecided = Count{d.Undecided, len(d.Cases)}
	if d.Invalid != "" {
		v.Undecided.Hits = len(d.Cases)
	}
	for i, loss := range Losses() {
		d, err := diff.Compare(g.data(of, 0, none, false), g.data(of, loss, planted, true), cfg)
		if err != nil {
			return err
		}
		for k, c := range d.Cases {
			if planted(k) {
				v.Found[i].add(d.Invalid == "" && (c.Change == change.Slower || c.Change == change.SuspectedSlower))
				v.Missed[i].add(d.Invalid == "" && c.Change == change.Same)
			}
		}
	}
	return nil
}

func (g *generator) run(name string, of card, loss float64) runs.Run {
	d := g.data(of, loss, all, false)
	return runs.Run{Path: fmt.Sprintf("%s-%d", name, g.made), ID: fmt.Sprintf("%s-%d", name, g.made), Host: name, Meta: d.Meta,
		Series: d.Series}
}

func (g *generator) fleets(v, check *Verdicts) {
	of := g.card()
	var cards [fleetCards][]runs.Run
	for range fleetRuns {
		for c := range cards {
			cards[c] = append(cards[c], g.run(fmt.Sprintf("host%d", c), of, 0))
		}
	}
	judge := func() *fleet.Result {
		c := fleet.NewCollector(fleet.Default(), nil)
		for _, of := range cards {
			for _, run := range of {
				c.Add(run)
			}
		}
		return c.Result()
	}
	r := judge()
	v.False.add(r.Count(fleet.Drain) > 0)
	v.Undecided = Count{r.Count(fleet.Unjudged), len(r.Cards)}
	b := r.Baseline()
	checked := func(loss float64) fleet.Check {
		return b.Judge(g.run("another", of, loss), fleet.Default())[0]
	}
	c := checked(0)
	check.False.add(c.Verdict == fleet.Drain)
	check.Undecided.add(c.Verdict == fleet.Unjudged || c.Verdict == fleet.Undecided)
	for i, loss := range Losses() {
		c := checked(loss)
		check.Found[i].add(c.Verdict == fleet.Drain)
		check.Missed[i].add(c.Verdict == fleet.Fine)
		g.made = 0
		cards[0] = nil
		for range fleetRuns {
			cards[0] = append(cards[0], g.run("host0", of, loss))
			g.made += fleetCards - 1
		}
		for _, card := range judge().Cards {
			if card.Host == "host0" {
				v.Found[i].add(card.Verdict == fleet.Drain)
				v.Missed[i].add(card.Verdict == fleet.Fine)
			}
		}
	}
}
