package rules

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/rules/cause"
)

// Explained is the candidate as a finding, with its cause.
func Explained(c *Candidate) Finding {
	f := c.finding()
	j := c.Worst
	if j.cause != cause.MeasurementError {
		if found, why := newWitness(c).Host(); found != "" {
			f.Cause, f.Explanation = found, why
			return f
		}
	}
	if j.cause != "" || j.explain != nil {
		f.Cause, f.Explanation = j.cause, j.explain(j)
		return f
	}
	w := newWitness(c)
	if found := entryOf(c.Rule).cause; found != nil {
		f.Cause, f.Explanation = found(w)
	} else if found, why := w.Seek(cause.Looks); found != "" {
		f.Cause, f.Explanation = found, w.Versus()+": "+why
	} else if found, why := c.majority(); found != "" {
		f.Cause, f.Explanation = found, why
	} else {
		f.Cause, f.Explanation = cause.Unknown, w.Versus()+"; the run does not show why"
	}
	f.Excluded = w.Excluded
	return f
}

const majorityRows = 16

// majority returns the cause of most rows of a finding whose worst row has no known cause. The explanation is
// from the worst of those rows. Empty if there is no majority.
func (c *Candidate) majority() (cause.Kind, string) {
	rows := map[cause.Kind]int{}
	worst := map[cause.Kind]float64{}
	why := map[cause.Kind]string{}
	looked := min(len(c.Rows), majorityRows)
	for i := range looked {
		single := *c
		single.Worst = c.Rows[i*len(c.Rows)/looked]
		w := newWitness(&single)
		if found, text := w.Seek(cause.Looks); found != "" {
			rows[found]++
			if w.Loss > worst[found] {
				worst[found], why[found] = w.Loss, fmt.Sprintf("%s: %s", w.Versus(), text)
			}
		}
	}
	for found, n := range rows {
		if 2*n > looked {
			return found, fmt.Sprintf("at %d of %d sizes: %s", n, looked, why[found])
		}
	}
	return "", ""
}

func newWitness(c *Candidate) *cause.Witness {
	j := c.Worst
	w := &cause.Witness{Curve: j.Curve, At: j.Point, Against: j.Against, Smaller: c.Rule == Monotonic, Row: j.Curve.Points[j.Point],
		Loss: math.Max(j.Loss.Mid, 0)}
	for _, r := range c.Rows {
		w.Rows = append(w.Rows, cause.Slow{Point: r.Point, Loss: r.Loss.Mid, Against: r.Against})
	}
	if t := c.tests[j]; t != nil && t.confirmed {
		w.Loss = math.Max(t.loss.Mid, 0)
		w.Stated = w.Loss
	} else {
		w.Stated = math.Max(c.worstLoss().Mid, 0)
	}
	m := j.Against.M
	switch {
	case len(j.Against.Parts) > 0:
		m = j.Against.Parts[len(j.Against.Parts)-1] // the largest part
	case j.Against.PadTo > 0:
		m = j.Against.PadTo
	}
	if j.Against.SeriesKey == j.direct().SeriesKey {
		if i, ok := w.Curve.At(m); ok {
			w.Reference = w.Curve.Points[i]
		}
	}
	return w
}
