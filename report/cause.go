package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

type findingCause rules.Finding

func (c findingCause) Text() string {
	if c.Cause == rules.Unknown && len(c.Excluded) > 0 {
		return fmt.Sprintf("%s, %d excluded", c.Cause, len(c.Excluded))
	}
	return string(c.Cause)
}
func (c findingCause) Raw() any { return string(c.Cause) }

// causeCell is the cause of a comparison; tables omit unknown causes.
type causeCell rules.Cause

func (c causeCell) Text() string {
	if rules.Cause(c) == rules.Unknown {
		return ""
	}
	return string(c)
}
func (c causeCell) Raw() any { return string(c) }

// excludedCell lists the causes excluded for a finding. Tables show it only if the cause is unknown.
type excludedCell rules.Finding

func (c excludedCell) Text() string {
	if c.Cause != rules.Unknown {
		return ""
	}
	return excludedText(c.Excluded)
}
func (c excludedCell) Raw() any { return excludedText(c.Excluded) }

func excludedText(excluded []rules.Exclusion) string {
	words := make([]string, len(excluded))
	for i, e := range excluded {
		words[i] = fmt.Sprintf("not %s: %s", e.Cause, e.Why)
	}
	return strings.Join(words, ". ")
}

func causeNotes(findings []rules.Finding) []Note {
	n := 0
	for _, f := range findings {
		if f.Cause == rules.Unknown && len(f.Excluded) > 0 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []Note{notef(Faint, "%s without a known cause: -o wide lists the excluded causes", count(n, "finding"))}
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
