package query

import (
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

func recordsOf[T any](fields []field.Field[T]) func(T) Record {
	values := map[string]func(T) any{}
	for _, f := range fields {
		if f.Where != "" {
			values[f.Where] = f.Value
		}
	}
	return func(record T) Record {
		return func(name string) any {
			if value, ok := values[name]; ok {
				return field.Raw(value(record))
			}
			return nil
		}
	}
}

// The records that commands list: remedies, intervals of M with one remedy, compared cases and findings, row
// medians, and export lines.
var (
	OfRemedy      = recordsOf(report.RemedyFields)
	OfCase        = recordsOf(report.CaseFields)
	OfFindingDiff = recordsOf(report.FindingDiffFields)
	OfMedian      = recordsOf(report.MedianFields)
	OfSample      = recordsOf(export.Fields)

	ofStretch = recordsOf(report.StretchFields)
	ofFinding = recordsOf(report.FindingFields)
)

// OfFindings adapts findings of an audit and its rows with the largest losses.
func OfFindings(a *rules.Audit) func(rules.Finding) Record {
	record := report.FindingRecords(a)
	return func(f rules.Finding) Record { return ofFinding(record(f)) }
}
