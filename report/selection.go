package report

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
)

func selectionNotes(s *rules.Selection, one, many string) []Note {
	if s == nil {
		return nil
	}
	var words []string
	if s.Where != "" {
		words = append(words, "where "+s.Where)
	}
	if s.Sort != "" {
		words = append(words, "sorted by "+s.Sort)
	}
	if s.Top > 0 {
		words = append(words, fmt.Sprintf("the first %d", s.Top))
	}
	return []Note{Notef(Open, "listed are %d of %s: %s; verdicts, summaries and the exit code cover all", s.Shown, Plural(s.Of, one, many),
		strings.Join(words, ", "))}
}
