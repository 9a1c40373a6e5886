package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// fleetRows is how many cards that are like their peers a table still lists.
const fleetRows = 16

// WriteFleet prints a fleet: first how groups differ in software, then what cards scatter by, then the cards. The narrow table and Markdown
// leave out cards that are like their peers where there are many. JSON is the result itself, JSONL one card a line, CSV one card a line.
func WriteFleet(w io.Writer, f Format, r *fleet.Result) error {
	doc := &Document{Subject: "fleet", Value: r, Items: []any{}}
	for i := range r.Cards {
		doc.Items = append(doc.Items, &r.Cards[i])
	}
	all := f != Table && f != Markdown || len(r.Cards) <= fleetRows
	cards := fleetCardSheet(r, all)
	if f == CSV {
		doc.Sheets = []Sheet{cards}
		return doc.Render(w, f)
	}
	doc.Head = fleetHead(r)
	doc.Sheets = []Sheet{confoundSheet(r), groupSheet(r), cards, remedySheet(r)}
	doc.Notes = fleetNotes(r)
	if n := r.Count(fleet.Fine); !all && n > 0 {
		doc.Notes = append([]Note{{fmt.Sprintf("%s like their peers: -o wide lists them", plural(n, "card is", "cards are")), Faint}}, doc.Notes...)
	}
	return doc.Render(w, f)
}

// FleetSummary is the outcome of a fleet in one line.
func FleetSummary(r *fleet.Result) string {
	if len(r.Cards) == 0 {
		return fmt.Sprintf("no card was judged: no run could be used, and %s left out", plural(len(r.Unread), "file is", "files are"))
	}
	hosts := map[string]bool{}
	for _, c := range r.Cards {
		hosts[c.Host] = true
	}
	s := fmt.Sprintf("%s on %s in %s", count(len(r.Cards), "card"), count(len(hosts), "host"), plural(r.Runs, "run", "runs"))
	if !r.From.IsZero() {
		s += fmt.Sprintf(", %s to %s", minuteText(r.From), minuteText(r.To))
	}
	words := []string{}
	for _, v := range []struct {
		verdict fleet.Verdict
		text    string
	}{{fleet.Drain, "to drain"}, {fleet.Watch, "to watch"}, {fleet.Fine, "fine"}, {fleet.Unjudged, "not judged"}} {
		if n := r.Count(v.verdict); n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, v.text))
		}
	}
	if len(words) == 0 {
		return s
	}
	return s + ": " + strings.Join(words, ", ")
}

func minuteText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

// fleetHead is the outcome, then what has to be known to read it.
func fleetHead(r *fleet.Result) []Note {
	tone := Good
	switch {
	case r.Count(fleet.Drain) > 0:
		tone = Bad
	case r.Count(fleet.Watch) > 0 || r.Count(fleet.Fine) == 0:
		tone = Open
	}
	notes := []Note{{FleetSummary(r), tone}}
	for _, g := range r.Groups {
		if m := g.Modes; m != nil {
			text := fmt.Sprintf("%s: the cards fall into two groups: %s %s longer than the other %d", g.Model, plural(m.Slower, "takes", "take"), formatShare(m.Ratio-1), m.Faster)
			if m.Of == "sustained" {
				text += " in sustained time"
			}
			if m.With != "" {
				text += "; what goes with it: " + m.With
			}
			notes = append(notes, Note{text + ". Each card is compared with its own group", Open})
		}
	}
	return notes
}

// fleetNotes are warnings, and how verdicts came about.
func fleetNotes(r *fleet.Result) []Note {
	notes := warningNotes(r.Warnings)
	for _, u := range r.Unread {
		notes = append(notes, Note{u.Path + " is left out: " + u.Reason, Warned})
	}
	seen := map[string]bool{}
	for _, g := range r.Groups {
		if seen[g.Model] {
			continue
		}
		seen[g.Model] = true
		if n := len(g.Drift); n > 1 {
			notes = append(notes, Note{fmt.Sprintf("%s: the whole fleet drifts: %s over %.1f h; it is taken out, and blamed on no card", g.Model, driftText(g.Drift), g.Drift[n-1].Hours-g.Drift[0].Hours), Faint})
		}
		clock := "clocks are not known, so that all times are as observed"
		if g.ClockMHz > 0 {
			clock = fmt.Sprintf("the common clock is %.0f MHz", g.ClockMHz)
		}
		sustained := "sustained time is what the sweep observed"
		if g.SustainedOf == results.PhaseSustained {
			sustained = "sustained time is that of cases that ran by themselves"
		}
		notes = append(notes, Note{fmt.Sprintf("%s: %s; %s", g.Model, clock, sustained), Faint})
	}
	return append(notes, Note{fmt.Sprintf("named are cards that lose %s and more, with a false discovery rate of %v over the cards (Benjamini–Hochberg); to drain those that surely lose %s",
		formatShare(r.Settings.Watch), r.Settings.Level, formatShare(r.Settings.Drain)), Faint})
}

// driftText is the lowest and the highest point of a fleet's drift: "-0.4 % to +0.6 %".
func driftText(d []fleet.DriftPoint) string {
	lo, hi := d[0].Ratio, d[0].Ratio
	for _, p := range d {
		lo, hi = min(lo, p.Ratio), max(hi, p.Ratio)
	}
	return fmt.Sprintf("%+.1f %% to %+.1f %% of the time in the middle", 100*(lo-1), 100*(hi-1))
}

// confoundSheet has a row for each group that differs in software or limits from the largest of its model.
func confoundSheet(r *fleet.Result) Sheet {
	s := Sheet{Title: "What differs in software and limits", Columns: []Column{
		{Name: "model", Key: "model"}, {Name: "cards", Key: "cards", Align: Right}, {Name: "against", Key: "against", Align: Right},
		{Name: "time at the common clock", Key: "ratio", Align: Right, Interval: true}, {Name: "sustained", Key: "sustained", Align: Right, Interval: true},
		{Name: "p", Key: "p", Align: Right}, {Name: "what differs", Key: "factors", Flex: true},
	}}
	for _, c := range r.Confounds {
		g := r.Groups[c.Group]
		s.Rows = append(s.Rows, []any{g.Model, g.Cards, r.Groups[c.Against].Cards, bounds{c.Ratio, factorCell}, bounds{c.Sustained, factorCell}, probability(c.P), factorsText(c.Factors)})
	}
	return s
}

// groupSheet says what cards, hosts and processes scatter by, once for each model.
func groupSheet(r *fleet.Result) Sheet {
	s := Sheet{Title: "What cards scatter by (standard deviations, cards that are named left out)", Columns: []Column{
		{Name: "model", Key: "model"}, {Name: "time", Key: "time"}, {Name: "between hosts", Key: "host", Align: Right}, {Name: "between cards", Key: "card", Align: Right},
		{Name: "between processes", Key: "process", Align: Right}, {Name: "hosts", Key: "hosts", Align: Right}, {Name: "cards", Key: "cards", Align: Right},
		{Name: "processes", Key: "processes", Align: Right}, {Name: "cases", Key: "cases", Align: Right},
	}}
	deviation := func(v *float64) any {
		if v == nil {
			return nil
		}
		return share(*v)
	}
	seen := map[string]bool{}
	for _, g := range r.Groups {
		if seen[g.Model] {
			continue
		}
		seen[g.Model] = true
		for _, of := range []struct {
			name string
			c    fleet.Components
		}{{"at the common clock", g.Common}, {"sustained", g.Sustained}} {
			s.Rows = append(s.Rows, []any{g.Model, of.name, deviation(of.c.Host), deviation(of.c.Card), deviation(of.c.Process), of.c.Hosts, of.c.Cards, of.c.Processes, g.Cases})
		}
	}
	return s
}

// verdictTone colours a verdict.
func verdictTone(v fleet.Verdict) Tone {
	switch v {
	case fleet.Drain:
		return Bad
	case fleet.Watch, fleet.Unjudged:
		return Open
	}
	return Good
}

// slowCaseSheet lists the worst cases of cards that are named.
func slowCaseSheet(r *fleet.Result) Sheet {
	s := Sheet{Columns: []Column{{Name: "host", Key: "host"}, {Name: "device", Key: "device"}, {Name: "series", Key: "series"}, {Name: "m", Key: "m", Align: Right},
		{Name: "time ÷ peers'", Key: "ratio", Align: Right}, {Name: "p adjusted", Key: "p_adjusted", Align: Right}}}
	for i := range r.Cards {
		c := &r.Cards[i]
		if !slices.Contains([]fleet.Verdict{fleet.Drain, fleet.Watch}, c.Verdict) {
			continue
		}
		for _, x := range c.Worst {
			s.Rows = append(s.Rows, []any{c.Host, c.Device, x.Series.TextOfAny(), x.M, factor(x.Ratio), probability(x.AdjustedP)})
		}
	}
	return s
}

// remedySheet lists what pays on cards.
func remedySheet(r *fleet.Result) Sheet {
	s := Sheet{Title: "Remedies", Columns: []Column{{Name: "product", Key: "product"}, {Name: "M", Key: "interval"}, {Name: "action", Key: "action"},
		{Name: "cards", Key: "cards", Align: Right}, {Name: "of", Key: "of", Align: Right}, {Name: "least gain", Key: "gain", Align: Right}, {Name: "only", Key: "only", Flex: true}}}
	const names = 4
	for _, e := range r.Remedies {
		only := strings.Join(e.Only[:min(len(e.Only), names)], ", ")
		if n := len(e.Only); n > names {
			only += fmt.Sprintf(" and %d more", n-names)
		}
		s.Rows = append(s.Rows, []any{e.Product.String(), intervalText(e.From, e.To), actionText(e.Action, e.From), e.Cards, e.Of, factor(e.Gain), only})
	}
	return s
}
