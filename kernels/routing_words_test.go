package kernels

import (
	"strings"
	"testing"
)

func TestExpertsInWords(t *testing.T) {
	for _, c := range []struct {
		dims          Dims
		even          bool
		experts, rows string // parts of the texts
	}{
		{Dims{}, true, "", "evenly"},
		{Dims{Groups: 8}, true, "8 experts, rows", "evenly"},
		{Dims{Groups: 1}, true, "1 expert", "evenly"},
		{Dims{Groups: 8, TopK: 2, Skew: 100, Draw: 1}, false, "8 experts, 2 for ", "with skew 100"},
		{Dims{Groups: 8, TopK: 2, Draw: 1}, false, "with equal chances", "with equal chances"},
		{Dims{Groups: 8, Routing: 77}, false, "8 experts, recorded", "recorded"},
	} {
		s := Subject{DType: BF16, Dims: c.dims}
		if c.dims.Groups > 0 {
			s.Operation = GroupedGEMM
		}
		if s.Even() != c.even || !strings.Contains(s.Experts(), c.experts) || (s.Experts() == "") != (c.experts == "") ||
			!strings.Contains(s.RoutedRows(), c.rows) {
			t.Errorf("%+v: even %v, %q, %q", c.dims, s.Even(), s.Experts(), s.RoutedRows())
		}
	}
}
