package diff

import (
	"fmt"
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func TestBands(t *testing.T) {
	one := func(d kernels.DType, m int, ratio, half float64) Case {
		c := Case{M: m, Ratio: stats.Interval{Lo: ratio - half, Mid: ratio, Hi: ratio + half}}
		c.Series.DType = d
		return c
	}
	got := bandsOf([]Case{
		one(kernels.BF16, 1, 1.2, 0.3), one(kernels.BF16, 16, 0.9, 0.01), one(kernels.BF16, 512, 1.21, 0.01),
		one(kernels.BF16, 4096, 1, 0.5),
		one(kernels.FP16, 17, 2, 0.1),
	})
	var text string
	for _, b := range got {
		text += fmt.Sprintf("%s %d-%d %d %.3f %d %d\n", b.DType, b.FromM, b.ToM, b.Cases, b.Ratio, b.Least.M, b.Most.M)
	}
	want := fmt.Sprintf("fp16 17-511 1 2.000 17 17\nbf16 1-16 2 %.3f 16 1\nbf16 512-0 2 1.100 512 512\n", math.Sqrt(1.2*0.9))
	if text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}
