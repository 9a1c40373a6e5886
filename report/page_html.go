package report

import (
	"bufio"
	"fmt"
	"io"
)

// pageStyle is the whole style sheet of a report; figures are on white whatever
// the reader's scheme is, since their colours were chosen for it.
const pageStyle = `:root{color-scheme:light dark;--line:#8884;--faint:#888}
body{font:15px/1.5 system-ui,"Liberation Sans",Arial,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
.summary{font-size:1.1rem;font-weight:600}.good{color:#007a5a}.bad{color:#c04f00}.open{color:#a06a00}.faint{color:var(--faint)}
@media(prefers-color-scheme:dark){.good{color:#3fc79f}.bad{color:#ff8f4a}.open{color:#f0b93c}}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;white-space:nowrap}
td.text{white-space:normal;min-width:18rem}th.right,td.right{text-align:right}
pre{background:#8882;padding:.6rem .8rem;overflow-x:auto;font-size:.85rem}code{font-size:.95em}
figure{margin:1rem 0;background:#fff;border:1px solid var(--line)}figure svg,figure img{display:block;width:100%;height:auto}
details{margin:.8rem 0}summary{cursor:pointer}
`

// html writes the page as one document. svg gives a figure's picture as an
// element: the SVG itself, or a reference to it.
func (p *page) html(out io.Writer, svg func(*Figure) string) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n%s\n", generatorMark)
	fmt.Fprintf(w, "<title>%s</title>\n<style>\n%s</style>\n</head>\n<body>\n", forHTML(p.title), pageStyle)
	fmt.Fprintf(w, "<h1>%s</h1>\n", forHTML(p.title))
	for i, n := range p.summary {
		class := toneClass(n.Tone)
		if i == 0 {
			class = "summary " + class
		}
		fmt.Fprintf(w, "<p class=\"%s\">%s</p>\n", class, forHTML(n.Text))
	}
	fmt.Fprintf(w, "<p>%s</p>\n", forHTML(p.machine))
	for _, s := range p.sections {
		s.html(w, svg)
	}
	fmt.Fprintf(w, "</body>\n</html>\n")
	return w.Flush()
}

func toneClass(t Tone) string {
	return [...]string{Neutral: "neutral", Good: "good", Bad: "bad", Open: "open", Faint: "faint"}[t]
}

func (s *section) html(w *bufio.Writer, svg func(*Figure) string) {
	if s.folded {
		fmt.Fprintf(w, "<details>\n<summary>%s</summary>\n", forHTML(s.heading))
	} else {
		fmt.Fprintf(w, "<h2>%s</h2>\n", forHTML(s.heading))
	}
	for _, t := range s.text {
		fmt.Fprintf(w, "<p>%s</p>\n", forHTML(t))
	}
	if s.sheet != nil && len(s.sheet.Rows) > 0 {
		sheet, note := s.shown()
		if title := sheet.heading(s.wide); title != "" {
			fmt.Fprintf(w, "<p>%s</p>\n", forHTML(title))
		}
		sheet.html(w, s.wide)
		if note != "" {
			fmt.Fprintf(w, "<p>%s</p>\n", forHTML(note))
		}
	}
	for _, c := range s.code {
		fmt.Fprintf(w, "<pre><code>%s</code></pre>\n", forHTML(c))
	}
	for _, f := range s.figures {
		fmt.Fprintf(w, "<figure>\n%s\n</figure>\n", svg(f))
	}
	if s.folded {
		fmt.Fprintf(w, "</details>\n")
	}
}

// html writes one sheet as a table.
func (s *Sheet) html(w io.Writer, wide bool) {
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
	io.WriteString(w, "<div class=\"scroll\"><table>\n<thead><tr>")
	for _, c := range cols {
		fmt.Fprintf(w, "<th%s>%s</th>", class(c), forHTML(s.Columns[c].Name))
	}
	io.WriteString(w, "</tr></thead>\n<tbody>\n")
	for _, row := range s.Rows {
		io.WriteString(w, "<tr>")
		for _, c := range cols {
			text := ""
			if c < len(row) {
				cell := toCell(row[c])
				text = forHTML(cell.Text())
				switch cell := cell.(type) {
				case code:
					if text != "" {
						text = "<code>" + text + "</code>"
					}
				case word:
					if cell.tone != Neutral && text != "" {
						text = fmt.Sprintf("<span class=\"%s\">%s</span>", toneClass(cell.tone), text)
					}
				}
			}
			fmt.Fprintf(w, "<td%s>%s</td>", class(c), text)
		}
		io.WriteString(w, "</tr>\n")
	}
	io.WriteString(w, "</tbody>\n</table></div>\n")
}
