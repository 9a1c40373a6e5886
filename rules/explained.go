package rules

import (
	"fmt"
	"math"
)

// Explained is the candidate as a finding, with its cause.
func Explained(c *Candidate) Finding {
	f := c.finding()
	j := c.Worst
	if j.cause != "" || j.explain != nil {
		f.Cause, f.Explanation = j.cause, j.explain(j)
		return f
	}
	w := newWitness(c)
	if cause := entryOf(c.Rule).cause; cause != nil {
		f.Cause, f.Explanation = cause(w)
	} else if cause, why := w.seek(looks); cause != "" {
		f.Cause, f.Explanation = cause, w.versus()+": "+why
	} else if cause, why := c.majority(); cause != "" {
		f.Cause, f.Explanation = cause, why
	} else {
		f.Cause, f.Explanation = Unknown, w.versus()+"; the run does not show why"
	}
	f.Excluded = w.excluded
	return f
}

const majorityRows = 16

// majority returns the cause of most rows of a finding whose worst row has no known cause. The explanation is
// from the worst of those rows. Empty if there is no majority.
func (c *Candidate) majority() (Cause, string) {
	rows := map[Cause]int{}
	worst := map[Cause]float64{}
	why := map[Cause]string{}
	looked := min(len(c.Rows), majorityRows)
	for i := range looked {
		single := *c
		single.Worst = c.Rows[i*len(c.Rows)/looked]
		w := newWitness(&single)
		if cause, text := w.seek(looks); cause != "" {
			rows[cause]++
			if w.loss > worst[cause] {
				worst[cause], why[cause] = w.loss, fmt.Sprintf("%s: %s", w.versus(), text)
			}
		}
	}
	for cause, n := range rows {
		if 2*n > looked {
			return cause, fmt.Sprintf("at %d of %d sizes: %s", n, looked, why[cause])
		}
	}
	return "", ""
}

func newWitness(c *Candidate) *witness {
	j := c.Worst
	w := &witness{curve: j.Curve, at: j.Point, against: j.Against, smaller: c.Rule == Monotonic, row: j.Curve.Points[j.Point],
		loss: math.Max(j.Loss.Mid, 0)}
	for _, r := range c.Rows {
		w.rows = append(w.rows, slowRow{r.Point, r.Loss.Mid, r.Against})
	}
	if t := c.tests[j]; t != nil && t.confirmed {
		w.loss = math.Max(t.loss.Mid, 0)
		w.stated = w.loss
	} else {
		w.stated = math.Max(c.worstLoss().Mid, 0)
	}
	m := j.Against.M
	switch {
	case len(j.Against.Parts) > 0:
		m = j.Against.Parts[len(j.Against.Parts)-1] // the largest part
	case j.Against.PadTo > 0:
		m = j.Against.PadTo
	}
	if j.Against.Kernel == j.direct().Kernel && j.Against.DType == j.direct().DType {
		if i, ok := w.curve.At(m); ok {
			w.reference = w.curve.Points[i]
		}
	}
	return w
}
