package choose

import (
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Controls returns the ids of the control rows of cases, in their order. The audit measures the machine's
// pace by them. With more cases given, they are a subset of these.
func (o OpenRows) Controls(cases []results.Case) []int64 {
	series := o.series(cases, nil)
	rows := infer.RowsByDevice(series)
	is := map[int64]bool{}
	for _, s := range series {
		for i, control := range infer.Controls(s, rows[s.Key.Device]) {
			if control {
				is[s.Rows[i].Case.ID] = true
			}
		}
	}
	var out []int64
	for _, c := range cases {
		if is[c.ID] {
			out = append(out, c.ID)
		}
	}
	return out
}
