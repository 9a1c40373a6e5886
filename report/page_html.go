package report

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
)

// pageFiles holds the style sheets, scripts and elements of index.html, and uPlot, which draws its lines.
//
//go:embed page
var pageFiles embed.FS

// pageKit lists the files of a page in loading order. All scripts share one scope: later scripts see the
// declarations of earlier ones.
type pageKit struct {
	styles, scripts []string
	body            string // its elements
}

var runKit = pageKit{pageStyles, pageScripts, "page.html"}

var (
	pageStyles  = []string{"uplot/uPlot.min.css", "page.css", "print.css"}
	pageScripts = []string{"uplot/uPlot.iife.min.js", "base.js", "copy.js", "data.js", "state.js", "draw.js", "heatmap.js", "lines.js",
		"samples.js", "findings.js", "main.js"}
)

// pageFile returns an embedded file, which must not close the HTML element around it.
func pageFile(name string) string {
	text, err := pageFiles.ReadFile(path.Join("page", name))
	if err != nil {
		panic(err) // embedded, and TestPageFiles reads each file
	}
	return strings.TrimSpace(string(text))
}

// policy is a page's content security policy: only its own scripts and styles run, identified by hash, and
// no file is loaded. further lists extra scripts.
func (k pageKit) policy(further ...string) string {
	var b strings.Builder
	b.WriteString("default-src 'none'; base-uri 'none'; form-action 'none'")
	for _, kind := range []struct {
		name  string
		files []string
	}{{"style-src", k.styles}, {"script-src", append(further, k.scripts...)}} {
		b.WriteString("; " + kind.name)
		for _, name := range kind.files {
			sum := sha256.Sum256([]byte(pageFile(name)))
			fmt.Fprintf(&b, " 'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
		}
	}
	return b.String()
}

// head is the start of a page, up to its title. further is as for policy.
func (k pageKit) head(further ...string) string {
	return fmt.Sprintf("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n%s\n"+
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n", generatorMark, k.policy(further...))
}

// html writes the page as one self-contained document. Its scripts draw data; sections with the same content
// are omitted.
func (p *page) html(out io.Writer, data *interactive) error { return p.with(out, runKit, data.write) }

func (p *page) with(out io.Writer, kit pageKit, data func(*bufio.Writer) error) error {
	w := bufio.NewWriterSize(out, 1<<16)
	fmt.Fprintf(w, "%s<title>%s</title>\n", kit.head(), forHTML(p.title))
	for _, name := range kit.styles {
		fmt.Fprintf(w, "<style>%s</style>\n", pageFile(name))
	}
	fmt.Fprintf(w, "</head>\n<body>\n<header>\n<h1>%s</h1>\n", forHTML(p.title))
	if p.answer != nil {
		p.answer.html(w)
		fmt.Fprintf(w, "<section><h2>%s</h2>\n", everythingElse)
		notesHTML(w, p.summary)
		fmt.Fprintf(w, "<p>%s</p>\n</section>\n%s\n", forHTML(p.machine), pageFile(kit.body))
	} else {
		notesHTML(w, p.summary)
		fmt.Fprintf(w, "<p>%s</p>\n</header>\n<main>\n%s\n", forHTML(p.machine), pageFile(kit.body))
	}
	for _, s := range p.sections {
		if !s.instead {
			s.html(w)
		}
	}
	fmt.Fprintf(w, "</main>\n")
	if err := data(w); err != nil {
		return err
	}
	for _, name := range kit.scripts {
		fmt.Fprintf(w, "<script>%s</script>\n", pageFile(name))
	}
	fmt.Fprintf(w, "</body>\n</html>\n")
	return w.Flush()
}

func notesHTML(w io.Writer, notes []Note) {
	for i, n := range notes {
		class := toneClass(n.Tone)
		if i == 0 {
			class = "summary " + class
		}
		fmt.Fprintf(w, "<p class=\"%s\">%s</p>\n", class, forHTML(n.line()))
	}
}

// write writes the page's data as elements that no browser executes. JSON escapes < and & there.
func (d *interactive) write(w *bufio.Writer) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "<script type=\"application/json\" id=\"data\">%s</script>\n", text)
	return d.columns.write(w)
}

func toneClass(t Tone) string {
	return [...]string{Neutral: "neutral", Good: "good", Bad: "bad", Open: "open", Faint: "faint", Warned: "open", Command: "neutral"}[t]
}

func (s *section) html(w *bufio.Writer) {
	if s.folded {
		fmt.Fprintf(w, "<details>\n<summary>%s</summary>\n", forHTML(s.heading))
	} else {
		fmt.Fprintf(w, "<section>\n<h2>%s</h2>\n", forHTML(s.heading))
	}
	for _, t := range s.text {
		fmt.Fprintf(w, "<p>%s</p>\n", forHTML(t))
	}
	if s.sheet != nil && len(s.sheet.Rows) > 0 {
		sheet, note := s.shown()
		if title := sheet.heading(s.wide); title != "" {
			fmt.Fprintf(w, "<p>%s</p>\n", forHTML(title))
		}
		sheet.html(w, s.heading, s.wide)
		if note != "" {
			fmt.Fprintf(w, "<p>%s</p>\n", forHTML(note))
		}
	}
	for _, c := range s.code {
		fmt.Fprintf(w, "<pre tabindex=\"0\"><code>%s</code></pre>\n", forHTML(c))
	}
	if s.folded {
		fmt.Fprintf(w, "</details>\n")
	} else {
		fmt.Fprintf(w, "</section>\n")
	}
}

// html writes a sheet as a table called name. A wide table scrolls, also by keyboard; on a phone its rows are
// stacked, and each cell has its column's name.
func (s *Sheet) html(w io.Writer, name string, wide bool) {
	cols := s.visible(wide)
	class := func(c int) string {
		switch {
		case s.Columns[c].Align == Right:
			return ` class="right"`
		case s.Columns[c].Flex:
			return ` class="text"`
		}
		return ""
	}
	fmt.Fprintf(w, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\"><table class=\"stacks\">\n<thead><tr>",
		forHTML(name))
	for _, c := range cols {
		fmt.Fprintf(w, "<th scope=\"col\"%s>%s</th>", class(c), forHTML(s.Columns[c].Name))
	}
	io.WriteString(w, "</tr></thead>\n<tbody>\n")
	for _, row := range s.Rows {
		io.WriteString(w, "<tr>")
		for _, c := range cols {
			fmt.Fprintf(w, "<td%s data-head=\"%s\">%s</td>", class(c), forHTML(s.Columns[c].Name), cellHTML(toCell(row[c])))
		}
		io.WriteString(w, "</tr>\n")
	}
	io.WriteString(w, "</tbody>\n</table></div>\n")
}

func cellHTML(cell Cell) string {
	text := forHTML(cell.Text())
	if text == "" {
		return ""
	}
	switch cell := cell.(type) {
	case code:
		return "<code>" + text + "</code>"
	case interface{ Tone() Tone }:
		if tone := cell.Tone(); tone != Neutral {
			return fmt.Sprintf("<span class=\"%s\">%s</span>", toneClass(tone), text)
		}
	}
	return text
}
