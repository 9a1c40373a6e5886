package explain

import (
	"fmt"
	"strings"
)

// roff keeps what a formatter of manual pages would obey: backslashes, and dots and quotes where lines begin.
func roff(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, `\`, `\e`), "\n")
	for i, line := range lines {
		line = strings.ReplaceAll(line, "-", `\-`)
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// Manual is a manual page of all words, in section 7, without a last line end.
func Manual() string {
	var b strings.Builder
	b.WriteString(".TH GEMMAUDIT-WORDS 7 \"\" gemmaudit gemmaudit\n.SH NAME\ngemmaudit-words \\- rules, causes, verdicts and other words of the output\n")
	for _, kind := range Kinds() {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(string(kind)))
		for _, t := range Terms() {
			if t.Kind != kind {
				continue
			}
			fmt.Fprintf(&b, ".SS %s\n%s.\n.PP\n.EX\n%s\n.EE\n.PP\nHow it is decided: %s\n.PP\nWhat to do: %s\n", t.Name,
				roff(strings.ToUpper(t.Meaning[:1])+t.Meaning[1:]), roff(strings.TrimRight(t.Picture, "\n")), roff(t.Decided), roff(t.Do))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
