package report

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/field"
)

// ColumnWord explains a column of a table, or a name in CSV and JSON.
type ColumnWord struct {
	Name    string // in CSV and JSON
	Head    string // in tables; empty where only CSV and JSON have it
	Meaning string
}

// ColumnWords explains the columns of all tables.
func ColumnWords() []ColumnWord {
	return slices.Concat(
		wordsOf(results.SeriesFields), wordsOf(export.ExportFields),
		wordsOf(hostCardFields),
		wordsOf(cardCaseFields),
		wordsOf(choicesDiffFields),
		wordsOf(CaseFields),
		wordsOf(FindingDiffFields),
		wordsOf(sourceFields),
		wordsOf(formatFields),
		wordsOf(factorFields),
		wordsOf(seriesDiffFields),
		wordsOf(launchFields),
		wordsOf(seriesChoicesFields),
		wordsOf(untoldFields),
		wordsOf(checkFields),
		wordsOf(RemedyFields),
		wordsOf(StretchFields),
		wordsOf(lookupFields),
		wordsOf(FindingFields),
		wordsOf(checkStepFields),
		wordsOf(peakFields),
		wordsOf(bandFields),
		wordsOf(eventFields),
		wordsOf(changeFields),
		wordsOf(caseOfRunFields),
		wordsOf(healthFields),
		wordsOf(problemFields),
		wordsOf(confoundFields),
		wordsOf(scatterFields),
		wordsOf(slowCaseFields),
		wordsOf(sharedRemedyFields),
		wordsOf(conditionFields),
		wordsOf(rowCheckFields),
		wordsOf(configFields),
		wordsOf(triageFields),
		wordsOf(fleetCardFields),
		wordsOf(overviewFields),
		wordsOf(verdictFields),
		wordsOf(againstFields),
		wordsOf(planFields),
		wordsOf(passFields),
		wordsOf(partFields),
		wordsOf(chunkSizeFields),
		wordsOf(usualChunkFields),
		wordsOf(sizesFields),
		wordsOf(skipFields),
		wordsOf(settingFields),
		wordsOf(MedianFields),
	)
}

func wordsOf[T any](fields []field.Field[T]) []ColumnWord {
	out := make([]ColumnWord, len(fields))
	for i, f := range fields {
		out[i] = ColumnWord{f.Name, f.Head, f.Words}
	}
	return out
}
