package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/history"
)

// WriteHistory prints the changes of cases over many runs: first the runs at which something changed, with what else changed there,
// then each change. JSON is the result itself with all medians, JSONL one case a line, CSV one median a line, with
// the change that comes with it.
func WriteHistory(w io.Writer, f Format, r *history.Result) error {
	doc := &Document{Subject: "history", Value: r, Items: []any{}}
	for _, c := range r.Cases {
		doc.Items = append(doc.Items, c)
	}
	tone := Good
	if r.Slower() > 0 {
		tone = Bad
	}
	doc.Head = []Note{{HistorySummary(r), tone}}
	if f == CSV {
		doc.Sheets = []Sheet{historyMedianSheet(r)}
		return doc.Render(w, f)
	}
	doc.Sheets = []Sheet{eventSheet(r), changeSheet(r)}
	doc.Notes = warningNotes(r.Warnings)
	if r.Short > 0 {
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("%s in fewer than %d runs: nothing is said of them", plural(r.Short, "case is", "cases are"), history.LeastRuns), Open})
	}
	for _, model := range slices.Sorted(maps.Keys(r.Clocks)) {
		if r.Clocks[model] > 0 {
			doc.Notes = append(doc.Notes, Note{fmt.Sprintf("%s: times are those at %.0f MHz", model, r.Clocks[model]), Faint})
		}
	}
	doc.Notes = append(doc.Notes, Note{fmt.Sprintf("changes of %s and more, false discovery rate %v over the cases (Benjamini–Hochberg)", formatShare(r.Settings.Threshold), r.Settings.Level), Faint})
	return doc.Render(w, f)
}

// HistorySummary is the outcome of a history in one line.
func HistorySummary(r *history.Result) string {
	s := count(len(r.Cases), "case") + " in " + count(len(r.Runs), "run")
	if n := len(r.Runs); n > 0 {
		s += fmt.Sprintf(", %s to %s", dayText(r.Runs[0].Taken), dayText(r.Runs[n-1].Taken))
	}
	if n := r.Changed(); n > 0 {
		return s + fmt.Sprintf(": %d changed, the last change of %d made them slower", n, r.Slower())
	}
	return s + ": no change"
}

func dayText(t time.Time) string {
	if t.IsZero() {
		return "an unknown day"
	}
	return t.UTC().Format(time.DateOnly)
}

// factorsText says what differs between two runs.
func factorsText(factors []results.FactorDiff) string {
	words := make([]string, 0, len(factors))
	for _, d := range factors {
		words = append(words, fmt.Sprintf("%s %s → %s", d.Name, cmp.Or(d.A, "unknown"), cmp.Or(d.B, "unknown")))
	}
	if len(words) == 0 {
		return "nothing that the fingerprints tell"
	}
	return strings.Join(words, "; ")
}

func eventSheet(r *history.Result) Sheet {
	s := Sheet{Title: "Runs at which times changed", Columns: []Column{
		{Name: "first run after", Key: "run"}, {Name: "date", Key: "date"}, {Name: "last run before", Key: "before", Wide: true}, {Name: "slower", Key: "slower", Align: Right},
		{Name: "faster", Key: "faster", Align: Right}, {Name: "geometric mean", Key: "ratio", Align: Right}, {Name: "what else changed", Key: "factors", Flex: true},
	}}
	for _, e := range r.Events {
		s.Rows = append(s.Rows, []any{r.Runs[e.Run].Path, dayText(r.Runs[e.Run].Taken), r.Runs[e.Before].Path, e.Slower, e.Faster, factor(e.Ratio), factorsText(e.Factors)})
	}
	return s
}

func changeSheet(r *history.Result) Sheet {
	s := Sheet{Title: "Changes", Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "m", Key: "m", Align: Right}, {Name: "first run after", Key: "run"}, {Name: "date", Key: "date", Wide: true},
		{Name: "from us", Key: "from_us", Align: Right}, {Name: "to us", Key: "to_us", Align: Right},
		{Name: "ratio", Key: "ratio", Align: Right, Interval: true}, {Name: "p", Key: "p", Align: Right, Wide: true},
	}}
	for _, c := range r.Cases {
		for _, x := range c.Changes {
			s.Rows = append(s.Rows, []any{c.Identity, c.M, r.Runs[x.Run].Path, dayText(r.Runs[x.Run].Taken), micros(x.FromUS), micros(x.ToUS), bounds{x.Ratio, factorCell}, probability(x.P)})
		}
	}
	return s
}

// historyMedianSheet has one row for each case of each run.
func historyMedianSheet(r *history.Result) Sheet {
	s := Sheet{Columns: []Column{{Name: "series", Key: "series"}, {Name: "m", Key: "m"}, {Name: "run", Key: "run"}, {Name: "date", Key: "date"}, {Name: "us", Key: "us"},
		{Name: "change", Key: "change"}, {Name: "p", Key: "p"}}}
	for _, c := range r.Cases {
		change := map[int]history.Change{}
		for _, x := range c.Changes {
			change[x.Run] = x
		}
		for i, us := range c.US {
			if us == nil {
				continue
			}
			row := []any{c.Identity, c.M, r.Runs[i].Path, r.Runs[i].Taken.UTC().Format(time.RFC3339), *us, nil, nil}
			if x, ok := change[i]; ok {
				row[5], row[6] = x.Ratio.Mid, x.P
			}
			s.Rows = append(s.Rows, row)
		}
	}
	return s
}
