package rules

import (
	"fmt"
)

// wrong reports whether the results of a curve's kernel are known to be wrong. Its times are judged, but it
// is neither a reference for other kernels nor a remedy.
func (c *curve) wrong() bool {
	if !c.series.Key.Operation.IsProduct() {
		return false
	}
	_, wrong := c.spec.WrongResults(c.series.Key.Kernel, c.series.Key.DType)
	return wrong
}

func warnWrong(data Data, warn func(subject, format string, args ...any)) {
	warned := map[string]bool{}
	for _, s := range data.Series {
		if !s.Key.Operation.IsProduct() {
			continue
		}
		subject := fmt.Sprintf("%s/%s/%s", s.Key.Device, s.Key.Kernel, s.Key.DType)
		if f, wrong := data.Spec(s.Key.Device).WrongResults(s.Key.Kernel, s.Key.DType); wrong && !warned[subject] {
			warned[subject] = true
			warn(subject, "its results are wrong, so it is not used as an alternative: %s", f.Text)
		}
	}
}
