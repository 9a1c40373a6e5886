package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/problem"
)

const everythingElse = "Everything else"

// answerPart opens a run's page: the sentences and the problems.
type answerPart struct {
	answer *Answer
	shown  []shownProblem
}

type shownProblem struct {
	*problem.Problem
	*account
	around around
	figure *Figure // plots its series' times; may be nil
}

func newAnswerPart(in Input, figures []*Figure) *answerPart {
	answer := in.answer()
	if answer == nil {
		return nil
	}
	part := &answerPart{answer: answer}
	timesOf := map[results.SeriesKey]*Figure{}
	for _, f := range slices.Backward(figures) { // backward, so the first of several wins
		timesOf[f.times] = f
	}
	of := evidenceIn(in.Audit)
	for _, p := range answer.Problems {
		a := around{problem: p}
		a.cut(of.rows[p.Series])
		part.shown = append(part.shown, shownProblem{Problem: p, account: of.account(in.Meta, p), around: a, figure: timesOf[p.Series]})
	}
	return part
}

// open returns the problems shown unfolded; folded returns the others.
func (a *answerPart) open() []shownProblem   { return a.shown[:min(mostProblems, len(a.shown))] }
func (a *answerPart) folded() []shownProblem { return a.shown[len(a.open()):] }

func (a *answerPart) moreProblems() string {
	return Plural(len(a.folded()), "more problem", "more problems")
}

// html ends the page header with the sentences and begins the main part with the problems.
func (a *answerPart) html(w io.Writer) {
	for i, s := range a.answer.Sentences() {
		class := ""
		switch {
		case i == 0 && a.answer.Invalid != "":
			class = ` class="summary open"`
		case i == 0:
			class = ` class="summary"`
		}
		fmt.Fprintf(w, "<p%s>%s</p>\n", class, forHTML(s))
	}
	fmt.Fprintf(w, "</header><main>\n")
	if len(a.shown) == 0 {
		return
	}
	fmt.Fprintf(w, "<section id=\"problems\" aria-labelledby=\"problems-heading\"><h2 id=\"problems-heading\">Problems</h2>\n")
	for _, p := range a.open() {
		p.html(w, a.answer.Problems)
	}
	if len(a.folded()) > 0 {
		fmt.Fprintf(w, "<details>\n<summary>%s</summary>\n", a.moreProblems())
		for _, p := range a.folded() {
			p.html(w, a.answer.Problems)
		}
		fmt.Fprintf(w, "</details>\n")
	}
	fmt.Fprintf(w, "</section>\n")
}

// headline lists the fields in a problem's heading, in order; the other fields follow below.
var headline = []string{"number", "gain", "remedy"}

// html shows one problem. Facts in which the problems of the page differ, such as the data type, are shown
// with each.
func (p *shownProblem) html(w io.Writer, all []*problem.Problem) {
	sheet := problemSheet([]*problem.Problem{p.Problem}, all)
	cell := func(i int) string { return cellHTML(toCell(sheet.Rows[0][i])) }
	fmt.Fprintf(w, "<article class=\"problem\"><h3>")
	for _, key := range headline {
		i := slices.IndexFunc(sheet.Columns, func(c Column) bool { return c.Key == key })
		fmt.Fprintf(w, "<span class=\"%s\">%s</span> ", key, cell(i))
	}
	fmt.Fprintf(w, "</h3><dl>")
	for i, c := range sheet.Columns {
		if text := cell(i); text != "" && !slices.Contains(headline, c.Key) {
			fmt.Fprintf(w, "<div><dt>%s</dt><dd>%s</dd></div>", forHTML(c.Name), text)
		}
	}
	fmt.Fprintf(w, "</dl>\n<div class=\"told\"><ul>")
	for _, s := range p.steps {
		fmt.Fprintf(w, "<li>%s</li>", s.html())
	}
	fmt.Fprintf(w, "</ul>")
	for _, text := range p.because() {
		fmt.Fprintf(w, "<p>%s</p>", forHTML(text))
	}
	fmt.Fprintf(w, "</div>\n<figure>")
	p.around.svg(w)
	fmt.Fprintf(w, "<figcaption>%s</figcaption></figure>\n<div class=\"rest\">", forHTML(p.around.caption()))
	if known := p.known(); len(known) > 0 {
		fmt.Fprintf(w, "<details><summary>How this is known</summary><ul>")
		for _, text := range known {
			fmt.Fprintf(w, "<li>%s</li>", forHTML(text))
		}
		fmt.Fprintf(w, "</ul></details>")
	}
	if p.command != "" {
		fmt.Fprintf(w,
			"<div class=\"command\"><pre tabindex=\"0\" aria-label=\"Command that measures problem %d "+
				"again\"><code>%s</code></pre><button type=\"button\" class=\"copy\" hidden>Copy</button></div>",
			p.Number, forHTML(p.command))
		if p.needsPaths {
			fmt.Fprintf(w, "<p>%s</p>", forHTML(pathsNote))
		}
	}
	fmt.Fprintf(w, "</div></article>\n")
}

func (p *shownProblem) because() []string {
	if len(p.why) == 0 && len(p.found) == 0 {
		return []string{onlyByRemedy}
	}
	return p.why
}

func (p *shownProblem) known() []string { return slices.Concat(p.times, p.excluded, p.found) }

func (s step) html() string {
	var b strings.Builder
	if s.engine != "" {
		fmt.Fprintf(&b, "<b>%s</b>: ", forHTML(s.engine))
	}
	if s.code != "" {
		fmt.Fprintf(&b, "<code>%s</code>%s", forHTML(s.code), s.between())
	}
	b.WriteString(spans(s.text, func(text string) string { return "<code>" + forHTML(text) + "</code>" }, forHTML))
	return b.String()
}

func (s step) between() string {
	if s.code == "" || s.text == "" {
		return ""
	}
	return "; "
}

// spans applies code to the text inside backticks and plain to the rest.
func spans(text string, code, plain func(string) string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			b.WriteString(code(part))
		} else {
			b.WriteString(plain(part))
		}
	}
	return b.String()
}

func (a *answerPart) markdown(w *bufio.Writer, image func(*Figure) string) {
	for i, s := range a.answer.Sentences() {
		if i == 0 {
			fmt.Fprintf(w, "**%s**\n\n", forMarkdown(s))
		} else {
			fmt.Fprintf(w, "- %s\n", lineMarkdown(s))
		}
	}
	fmt.Fprintln(w)
	if len(a.shown) == 0 {
		return
	}
	fmt.Fprintf(w, "### Problems\n\n")
	sheet := problemSheet(a.answer.Problems[:len(a.open())], a.answer.Problems)
	sheet.markdown(w, false)
	if len(a.folded()) > 0 {
		fmt.Fprintf(w, "\n%s in findings.json.\n", a.moreProblems())
	}
	fmt.Fprintln(w)
	for _, p := range a.open() {
		p.markdown(w, image)
	}
}

func (p *shownProblem) markdown(w *bufio.Writer, image func(*Figure) string) {
	fmt.Fprintf(w, "<details>\n<summary>%d. %s</summary>\n\n", p.Number, htmlInMarkdown(p.times[0]))
	for _, s := range p.steps {
		w.WriteString("- ")
		if s.engine != "" {
			fmt.Fprintf(w, "%s: ", forMarkdown(s.engine))
		}
		if s.code != "" {
			fmt.Fprintf(w, "%s%s", markdownCode(s.code), s.between())
		}
		fmt.Fprintln(w, spans(s.text, markdownCode, spaced))
	}
	for _, text := range p.because() {
		fmt.Fprintf(w, "\n%s\n", lineMarkdown(text))
	}
	if p.figure != nil && image != nil {
		fmt.Fprintf(w, "\n[%s](%s)\n", forMarkdown(p.figure.Title), image(p.figure))
	}
	if p.command != "" {
		fmt.Fprintf(w, "\n```sh\n%s\n```\n", strings.Join(fenced([]string{p.command}), "\n"))
		if p.needsPaths {
			fmt.Fprintf(w, "\n%s\n", lineMarkdown(pathsNote))
		}
	}
	fmt.Fprintf(w, "\n</details>\n\n")
}

// spaced escapes text for Markdown and keeps one space at each end.
func spaced(s string) string {
	text := forMarkdown(s)
	if strings.HasPrefix(s, " ") {
		text = " " + text
	}
	if strings.HasSuffix(s, " ") {
		text += " "
	}
	return text
}
