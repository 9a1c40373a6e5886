package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// markdown writes the page as it reads well in a pull request: title and outcome
// first, long tables folded. image gives the path of a figure's picture.
func (p *page) markdown(out io.Writer, image func(*Figure) string) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "## %s\n\n", forMarkdown(p.title))
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
	for _, s := range p.sections {
		s.markdown(w, image)
	}
	return w.Flush()
}

// toneSign begins a line of a list so that a warning stands out without colour.
func toneSign(t Tone) string {
	if t == Open || t == Bad || t == Warned {
		return "- :warning: "
	}
	return "- "
}

func (s *section) markdown(w *bufio.Writer, image func(*Figure) string) {
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
	if s.folded {
		fmt.Fprintf(w, "\n</details>\n")
	}
}

// fenced makes commands safe inside a fence of three backticks.
func fenced(commands []string) []string {
	var out []string
	for _, c := range commands {
		out = append(out, strings.ReplaceAll(clean(c), "```", "` ` `"))
	}
	return out
}

// shown is the part of a section's sheet that fits, and what to say of the rest.
func (s *section) shown() (Sheet, string) {
	sheet := *s.sheet
	if s.limit <= 0 || len(sheet.Rows) <= s.limit {
		return sheet, ""
	}
	note := fmt.Sprintf("%d of %d rows are shown; %s has all of them.", s.limit, len(sheet.Rows), s.full)
	sheet.Rows = sheet.Rows[:s.limit]
	return sheet, note
}
