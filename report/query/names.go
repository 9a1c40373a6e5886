package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/field"
)

// Set is a set of record kinds.
type Set uint

// The kinds of records.
const (
	Findings Set = 1 << iota // in audit and report
	Remedies                 // in splits and report
	Changes                  // cases and findings that diff compares
	Rows                     // medians that report prints
	Samples                  // lines that export writes
)

var kinds = []string{"findings", "remedies", "changes", "rows", "samples"}

// String lists the kinds of a set: "findings, remedies".
func (s Set) String() string {
	var words []string
	for i, k := range kinds {
		if s&(1<<i) != 0 {
			words = append(words, k)
		}
	}
	return strings.Join(words, ", ")
}

// Name is a name in expressions, made from a field's declaration.
type Name struct {
	Name string
	Type field.Kind // of the value: Text, Count, Number or Flag
	// Unit is the value's unit, may be empty.
	Unit    string
	Meaning string
	// Of is the record kinds that have this meaning of the name.
	Of Set
}

func declare[T any](of Set, fields []field.Field[T]) (out []Name) {
	for _, f := range field.Filters(fields) {
		n := Name{Name: f.Where, Type: f.Type(), Unit: string(f.Unit), Meaning: f.Words, Of: of}
		if n.Type == field.Bounds {
			n.Type = field.Number
		}
		if f.Unit == field.Probability {
			n.Unit = ""
		}
		out = append(out, n)
	}
	return out
}

// names are all names, series' first. A name with several meanings is listed once for each, in sequence.
var names = func() []Name {
	out := declare(0, results.SeriesFields)
	for _, d := range [][]Name{
		declare(Findings, report.FindingFields), declare(Remedies, report.RemedyFields), declare(Remedies, report.StretchFields),
		declare(Changes, report.CaseFields), declare(Changes, report.FindingDiffFields),
		declare(Rows, report.MedianFields), declare(Samples, export.Fields),
	} {
		for _, n := range d {
			after := -1
			same := slices.IndexFunc(out, func(o Name) bool { return o.Name == n.Name && o.Meaning == n.Meaning && o.Unit == n.Unit })
			for i, o := range out {
				if o.Name == n.Name {
					after = i
				}
			}
			switch {
			case same >= 0:
				out[same].Of |= n.Of
			case after >= 0:
				out = slices.Insert(out, after+1, n)
			default:
				out = append(out, n)
			}
		}
	}
	return out
}()

// Meanings lists the names of a set's records in display order; a name with several meanings is listed once
// for each.
func Meanings(of Set) []Name {
	return slices.DeleteFunc(slices.Clone(names), func(n Name) bool { return n.Of&of == 0 })
}

// Names is [Meanings] with each name once.
func Names(of Set) []Name {
	return slices.CompactFunc(Meanings(of), func(a, b Name) bool { return a.Name == b.Name })
}

// lookup finds a name of a set. The error lists the valid names.
func lookup(name string, of Set) (Name, error) {
	var others Set
	for _, n := range names {
		if n.Name != name {
			continue
		}
		if n.Of&of != 0 {
			return n, nil
		}
		others |= n.Of
	}
	var have []string
	for _, n := range Names(of) {
		have = append(have, n.Name)
	}
	list := strings.Join(have, ", ")
	if others != 0 {
		return Name{}, fmt.Errorf("%s is a name of %s and not of %s; these have %s", name, others, of, list)
	}
	return Name{}, fmt.Errorf("unknown name %q: expected one of %s", name, list)
}
