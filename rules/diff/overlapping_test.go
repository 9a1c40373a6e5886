package diff

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func TestOverlappingIsComparedWithAutoOnly(t *testing.T) {
	time := func(m int) float64 { return 20 + 0.5*float64(m) }
	named := func(a, b string) infer.Data {
		data := twoKernels(time, time)
		for i := range data.Series {
			s := &data.Series[i]
			name := map[string]string{"lib@1": a, "lib@2": b}[s.Key.Kernel]
			s.Key.Kernel = name
			for k := range s.Rows {
				s.Rows[k].Case.Kernel = name
			}
		}
		return data
	}
	for _, c := range []struct{ other, a, b, want string }{
		{"auto", "auto", kernels.Overlapping, ""},
		{"mine", "mine", kernels.Overlapping, "can't be compared"},
		{"mine", kernels.Overlapping, "mine", "can't be compared"},
		{"mine", "mine", "mine+" + kernels.Overlapping, "can't be compared"},
	} {
		d, err := CompareKernels(named(c.other, kernels.Overlapping), c.a, c.b, rules.Default())
		switch {
		case c.want == "" && (err != nil || len(d.Cases) == 0):
			t.Errorf("%s and %s: %v", c.a, c.b, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s and %s: %v, expected %q", c.a, c.b, err, c.want)
		}
	}
	d, err := CompareKernels(named("mine", kernels.Overlapping), "mine", "others", rules.Default())
	if err != nil || len(d.Cases) != 0 {
		t.Errorf("mine and others: %d cases, %v, expected none", len(d.Cases), err)
	}
}
