package query

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/explain"
)

// whereOperators lists the operators of --where with their meanings.
var whereOperators = [][2]string{
	{"== != < <= > >=", "compare; a single = is =="},
	{"in [a, b]", "in a list; not in a list"},
	{"contains, startsWith, endsWith", "match part of a text"},
	{"matches", "match a regular expression, as in label matches '^nvjet'"},
	{"&& || !", "and, or, not (also as words)"},
	{"+ - * / %", "arithmetic, as in m % 128 != 0"},
}

// Help explains --where, --sort and --top, wrapped at width columns.
func Help(width int) string {
	var b strings.Builder
	b.WriteString(`--where lists only what matches an expression, as in
  --where 'kernel=cublas && loss>0.1'
  --where 'cause in [wave-quantization, tile-quantization] and m % 128 != 0'
--sort orders the list by names; - puts the largest first: --sort -stake,m
--top N lists the first N. Verdicts, summaries and exit codes do not change.

Operators:
`)
	for _, o := range whereOperators {
		b.WriteString(explain.Hanging(fmt.Sprintf("  %-31s ", o[0]), o[1], width))
	}
	b.WriteString("Texts need no quotes after == or in a list. An unknown number is not equal to,\n" +
		"less than or greater than any other.\n\nNames:\n")
	for _, n := range Meanings(everyRecord) {
		unit := n.Unit
		if unit == "" {
			unit = string(n.Type)
		}
		b.WriteString(explain.Hanging(fmt.Sprintf("  %-12s %-7s ", n.Name, unit), n.Meaning, width))
		b.WriteString(explain.Hanging(strings.Repeat(" ", 23), fmt.Sprint("of ", n.Of), width))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

const everyRecord = Findings | Remedies | Changes | Rows | Samples
