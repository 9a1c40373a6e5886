package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

func findingCause(f rules.Finding) Cell {
	text := string(f.Cause)
	if f.Cause == cause.Unknown && len(f.Excluded) > 0 {
		text += fmt.Sprintf(", %d excluded", len(f.Excluded))
	}
	return shown{text: text, raw: string(f.Cause)}
}

// causeCell is the cause of a comparison; tables omit unknown causes.
func causeCell(c cause.Kind) Cell {
	if c == cause.Unknown {
		return shown{raw: string(c)}
	}
	return word{text: string(c)}
}

// excludedCell lists the causes excluded for a finding. Tables show it only if the cause is unknown.
func excludedCell(f rules.Finding) Cell {
	text := excludedText(f.Excluded)
	if f.Cause != cause.Unknown {
		return shown{raw: text}
	}
	return word{text: text}
}

func excludedText(excluded []cause.Exclusion) string {
	words := make([]string, len(excluded))
	for i, e := range excluded {
		words[i] = fmt.Sprintf("not %s: %s", e.Cause, e.Why)
	}
	return strings.Join(words, ". ")
}

func causeNotes(findings []rules.Finding) []Note {
	n := countOf(findings, func(f rules.Finding) bool { return f.Cause == cause.Unknown && len(f.Excluded) > 0 })
	if n == 0 {
		return nil
	}
	return []Note{Notef(Faint, "%s without a known cause: -o wide lists the excluded causes", Count(n, "finding"))}
}

func causeReading(findings []rules.Finding) []string {
	var lines []string
	for _, known := range cause.All() {
		if known != cause.Unknown && slices.ContainsFunc(findings, func(f rules.Finding) bool { return f.Cause == known }) {
			lines = append(lines, fmt.Sprintf("%s: %s. %s", known, known.Meaning(), toDo(explain.Cause, string(known))))
		}
	}
	return lines
}
