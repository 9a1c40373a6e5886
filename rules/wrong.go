package rules

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// wrong says whether the results of a curve's kernel are known to be wrong. Its times are judged, but no other kernel is
// compared with them and no remedy runs it.
func (c *curve) wrong() bool {
	if c.series.Key.Operation != kernels.GEMM {
		return false
	}
	_, wrong := c.spec.WrongResults(c.series.Key.Kernel, c.series.Key.DType)
	return wrong
}

// warnWrong warns once of each kernel and type of a run whose results are known to be wrong.
func warnWrong(data Data, warn func(subject, format string, args ...any)) {
	warned := map[string]bool{}
	for _, s := range data.Series {
		if s.Key.Operation != kernels.GEMM {
			continue
		}
		subject := fmt.Sprintf("%s/%s/%s", s.Key.Device, s.Key.Kernel, s.Key.DType)
		if f, wrong := data.spec(s.Key.Device).WrongResults(s.Key.Kernel, s.Key.DType); wrong && !warned[subject] {
			warned[subject] = true
			warn(subject, "its results are wrong, so it is no alternative to another kernel: %s", f.Text)
		}
	}
}
