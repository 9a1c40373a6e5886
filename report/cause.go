package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

func findingCause(f rules.Finding) Cell {
	text := string(f.Cause)
	if f.Cause == rules.Unknown && len(f.Excluded) > 0 {
		text += fmt.Sprintf(", %d excluded", len(f.Excluded))
	}
	return shown{text: text, raw: string(f.Cause)}
}

// causeCell is the cause of a comparison; tables omit unknown causes.
func causeCell(c rules.Cause) Cell {
	if c == rules.Unknown {
		return shown{raw: string(c)}
	}
	return word{text: string(c)}
}

// excludedCell lists the causes excluded for a finding. Tables show it only if the cause is unknown.
func excludedCell(f rules.Finding) Cell {
	text := excludedText(f.Excluded)
	if f.Cause != rules.Unknown {
		return shown{raw: text}
	}
	return word{text: text}
}

func excludedText(excluded []rules.Exclusion) string {
	words := make([]string, len(excluded))
	for i, e := range excluded {
		words[i] = fmt.Sprintf("not %s: %s", e.Cause, e.Why)
	}
	return strings.Join(words, ". ")
}

func causeNotes(findings []rules.Finding) []Note {
	n := countOf(findings, func(f rules.Finding) bool { return f.Cause == rules.Unknown && len(f.Excluded) > 0 })
	if n == 0 {
		return nil
	}
	return []Note{Notef(Faint, "%s without a known cause: -o wide lists the excluded causes", Count(n, "finding"))}
}

func causeReading(findings []rules.Finding) []string {
	var lines []string
	for _, cause := range rules.AllCauses() {
		if cause != rules.Unknown && slices.ContainsFunc(findings, func(f rules.Finding) bool { return f.Cause == cause }) {
			lines = append(lines, fmt.Sprintf("%s: %s. %s", cause, cause.Meaning(), toDo(explain.Cause, string(cause))))
		}
	}
	return lines
}
