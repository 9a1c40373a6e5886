package report

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
)

// markdown writes the page for a pull request: title and outcome first, long tables folded. image returns the
// path of a figure.
func (p *page) markdown(out io.Writer, image func(*Figure) string) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "## %s\n\n", forMarkdown(p.title))
	if p.answer != nil {
		p.answer.markdown(w, image)
		fmt.Fprintf(w, "### %s\n\n", everythingElse)
	}
	for i, n := range p.summary {
		switch {
		case i == 0:
			fmt.Fprintf(w, "**%s**\n\n", forMarkdown(n.Text))
		default:
			fmt.Fprintf(w, "%s%s\n", toneSign(n.Tone), lineMarkdown(n.Text))
		}
	}
	if len(p.summary) > 1 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s\n", lineMarkdown(p.machine))
	var elsewhere []string
	for _, s := range p.sections {
		if p.answer != nil && s.folded && s.full != "" { // the page shows it better, and the file has it all
			elsewhere = append(elsewhere, fmt.Sprintf("%s: %s", s.heading, s.full))
			continue
		}
		if p.answer != nil && s.limit > 0 {
			s.limit = min(s.limit, markdownRows)
		}
		s.markdown(w, image)
	}
	if len(elsewhere) > 0 {
		fmt.Fprintf(w, "\nindex.html shows the rest. %s.\n", lineMarkdown(strings.Join(elsewhere, "; ")))
	}
	return w.Flush()
}

// markdownRows is the maximum number of table rows in Markdown, which is read in a pull request.
const markdownRows = 20

func toneSign(t Tone) string {
	if t == Open || t == Bad || t == Warned {
		return "- :warning: "
	}
	return "- "
}

// markdown writes a section that ends with one newline; the next one begins with an empty line.
func (s *section) markdown(out *bufio.Writer, image func(*Figure) string) {
	w := &bytes.Buffer{}
	if s.folded {
		fmt.Fprintf(w, "\n<details>\n<summary>%s</summary>\n\n", htmlInMarkdown(s.heading))
	} else {
		fmt.Fprintf(w, "\n### %s\n\n", forMarkdown(s.heading))
	}
	if len(s.text) == 1 {
		fmt.Fprintf(w, "%s\n\n", lineMarkdown(s.text[0]))
	} else {
		for _, t := range s.text {
			fmt.Fprintf(w, "- %s\n", lineMarkdown(t))
		}
		if len(s.text) > 0 {
			fmt.Fprintln(w)
		}
	}
	if s.sheet != nil && len(s.sheet.Rows) > 0 {
		sheet, note := s.shown()
		if title := sheet.heading(s.wide); title != "" {
			fmt.Fprintf(w, "%s\n\n", lineMarkdown(title))
		}
		sheet.markdown(w, s.wide)
		if note != "" {
			fmt.Fprintf(w, "\n%s\n", lineMarkdown(note))
		}
	}
	if len(s.code) > 0 {
		fmt.Fprintf(w, "```sh\n%s\n```\n", strings.Join(fenced(s.code), "\n"))
	}
	for _, f := range s.figures {
		fmt.Fprintf(w, "![%s](%s)\n\n", forMarkdown(f.Alt), image(f))
	}
	fmt.Fprintf(out, "%s\n", bytes.TrimRight(w.Bytes(), "\n"))
	if s.folded {
		fmt.Fprintf(out, "\n</details>\n")
	}
}

func fenced(commands []string) []string {
	var out []string
	for _, c := range commands {
		out = append(out, strings.ReplaceAll(Clean(c), "```", "` ` `"))
	}
	return out
}

// shown returns the part of a section's sheet that fits, and a note on the rest.
func (s *section) shown() (Sheet, string) {
	sheet := *s.sheet
	if s.limit <= 0 || len(sheet.Rows) <= s.limit {
		return sheet, ""
	}
	note := fmt.Sprintf("%d of %d rows are shown; %s has all of them.", s.limit, len(sheet.Rows), s.full)
	sheet.Rows = sheet.Rows[:s.limit]
	return sheet, note
}
