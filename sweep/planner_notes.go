package sweep

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// cut counts the Ms left out of a kernel's grids. Equal grids count as one.
type cut struct {
	kernel, device    string
	most              int    // largest M kept, 0 if gaps were left out
	left, grid, count int    // batches left out, batches of the grid, series
	why               string // of the first gap, which may name the M to pad to
}

func (b *planner) cut(s PlannedSeries, kept, ms Batches, err error) {
	c := cut{kernel: s.Kernel, device: s.Device, left: len(ms) - len(kept), grid: len(ms)}
	if slices.Equal(kept, ms[:len(kept)]) {
		c.most = kept[len(kept)-1]
	}
	if no := (*kernels.Unsupported)(nil); c.most == 0 && errors.As(err, &no) {
		c.why = ": " + no.Reason
	}
	for i := range b.cuts {
		same := b.cuts[i]
		if same.count = 0; same == c {
			b.cuts[i].count++
			return
		}
	}
	c.count = 1
	b.cuts = append(b.cuts, c)
}

func (b *planner) noteCuts() {
	for _, c := range b.cuts {
		what, series := "does not take every M", fmt.Sprintf("%d series", c.count)
		if c.most > 0 {
			what = fmt.Sprintf("takes M up to %d of the grid", c.most)
		}
		if c.count == 1 {
			series = "one series"
		}
		b.note(c.kernel+" on "+c.device, "%s: %d of %d batches of %s are skipped%s", what, c.left, c.grid, series, c.why)
	}
}

func (b *planner) note(what, format string, args ...any) {
	b.add(Note{What: what, Why: fmt.Sprintf(format, args...)})
}

func (b *planner) leftOut(what, format string, args ...any) {
	b.add(Note{What: what, LeftOut: true, Why: fmt.Sprintf(format, args...)})
}

func (b *planner) add(n Note) {
	if b.noted == nil {
		b.noted = map[Note]bool{}
	}
	if !b.noted[n] {
		b.noted[n] = true
		b.plan.Notes = append(b.plan.Notes, n)
	}
}
