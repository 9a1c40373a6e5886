package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// fleetRows is the most cards like their peers that a table lists.
const fleetRows = 16

// WriteFleet prints a fleet: sentences that name the slow cards, software differences between groups, the
// variation among cards, then the cards. The narrow table and Markdown omit cards that match their peers if
// there are many. JSON is the result itself; JSONL and CSV hold one card a line.
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
	doc.Head = fleetSentences(r)
	doc.Sheets = []Sheet{confoundSheet(r), groupSheet(r), cards, remedySheet(r)}
	doc.Notes = fleetWarnings(r)
	if f == Wide {
		doc.Notes = append(doc.Notes, fleetMethod(r)...)
	}
	if n := r.Count(fleet.Fine); !all && n > 0 {
		doc.Notes = append([]Note{Notef(Faint, "%s like their peers: -o wide lists them", Plural(n, "card is", "cards are"))}, doc.Notes...)
	}
	return doc.Render(w, f)
}

// FleetSummary is the outcome of a fleet in one line.
func FleetSummary(r *fleet.Result) string {
	if len(r.Cards) == 0 {
		return fmt.Sprintf("No card was judged: no run could be used, and %s left out", Plural(len(r.Unread), "file is", "files are"))
	}
	hosts := map[string]bool{}
	for _, c := range r.Cards {
		hosts[c.Host] = true
	}
	s := fmt.Sprintf("%s on %s in %s", Count(len(r.Cards), "card"), Count(len(hosts), "host"), Plural(r.Runs, "run", "runs"))
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

func fleetWarnings(r *fleet.Result) []Note {
	notes := warningNotes(r.Warnings)
	for _, u := range r.Unread {
		notes = append(notes, Note{u.Path + " is left out: " + u.Reason, Warned})
	}
	return notes
}

func fleetMethod(r *fleet.Result) []Note {
	var notes []Note
	seen := map[string]bool{}
	for _, g := range r.Groups {
		if seen[g.Model] {
			continue
		}
		seen[g.Model] = true
		if n := len(g.Drift); n > 1 {
			notes = append(notes, Notef(Faint, "%s: the whole fleet drifts: %s over %.1f h; it is taken out, and blamed on no card",
				g.Model, driftText(g.Drift), g.Drift[n-1].Hours-g.Drift[0].Hours))
		}
		clock := "clocks are unknown, so all times are as measured"
		if g.ClockMHz > 0 {
			clock = fmt.Sprintf("the common clock is %.0f MHz", g.ClockMHz)
		}
		sustained := "sustained time is as measured in the sweep"
		if g.SustainedOf == results.PhaseSustained {
			sustained = "sustained time is from cases that ran alone"
		}
		notes = append(notes, Notef(Faint, "%s: %s; %s", g.Model, clock, sustained))
	}
	return append(notes,
		Notef(Faint,
			"named are cards that lose %s and more, with a false discovery rate of %v over the cards (Benjamini–Hochberg); "+
				"to drain those that surely lose %s", FormatShare(r.Settings.Watch), r.Settings.Level, FormatShare(r.Settings.Drain)))
}

// driftText is the range of a fleet's drift: "-0.4 % to +0.6 %".
func driftText(d []fleet.DriftPoint) string {
	lo, hi := d[0].Ratio, d[0].Ratio
	for _, p := range d {
		lo, hi = min(lo, p.Ratio), max(hi, p.Ratio)
	}
	return fmt.Sprintf("%+.1f %% to %+.1f %% of the time in the middle", 100*(lo-1), 100*(hi-1))
}

func verdictTone(v fleet.Verdict) Tone {
	switch v {
	case fleet.Drain:
		return Bad
	case fleet.Watch, fleet.Unjudged:
		return Open
	}
	return Good
}
