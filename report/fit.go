package report

import (
	"slices"

	"github.com/jedib0t/go-pretty/v6/text"
)

// DefaultWidth is the number of columns of output without a terminal.
const DefaultWidth = 100

// Limit is the maximum number of columns of a line.
func (st Style) Limit() int {
	if st.Width > 0 {
		return st.Width
	}
	return DefaultWidth
}

// leastCut is the minimum width of a shortened cell; leastFlex is the minimum width of a wrapping column.
const leastCut, leastFlex = 12, 24

// fit makes a table no wider than limit. It drops the bounds of intervals, then columns from the right,
// except the first and those with Keep. Then it wraps columns of words and shortens long cells. The wide
// table and the other formats have everything.
func (s *Sheet) fit(cols []int, cells [][]string, tones [][]Tone, st Style) ([]int, [][]string, [][]Tone) {
	limit := st.Limit()
	over := func() int {
		used := -2
		for i, w := range widths(cells) {
			if s.Columns[cols[i]].Flex {
				w = min(w, leastFlex)
			}
			used += w + 2
		}
		return used - limit
	}
	for i := len(cols) - 1; i >= 0 && over() > 0; i-- {
		for r, row := range s.Rows {
			if short, ok := toCell(row[cols[i]]).(interface{ Short() string }); ok {
				cells[r+1][i] = ForTerminal(short.Short(), st.Unicode)
			}
		}
	}
	for i := len(cols) - 1; i > 0 && over() > 0; i-- {
		if s.Columns[cols[i]].Keep || s.Columns[cols[i]].Flex {
			continue
		}
		cols = slices.Delete(slices.Clone(cols), i, i+1)
		for r := range cells {
			cells[r], tones[r] = slices.Delete(cells[r], i, i+1), slices.Delete(tones[r], i, i+1)
		}
	}
	for excess := over(); excess > 0; excess = over() {
		ws, widest := widths(cells), -1
		for i, w := range ws {
			if !s.Columns[cols[i]].Flex && w > leastCut && (widest < 0 || w > ws[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		for r := range cells {
			cells[r][widest] = cutText(cells[r][widest], max(leastCut, ws[widest]-excess))
		}
	}
	return cols, cells, tones
}

func cutText(s string, to int) string {
	if text.StringWidthWithoutEscSequences(s) <= to {
		return s
	}
	const mark = "..."
	return text.Trim(s, to-len(mark)) + mark
}
