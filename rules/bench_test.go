package rules

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func BenchmarkAudit(b *testing.B) {
	data := synthetic.ByM(synthetic.ManySlow, synthetic.Student(0.02), rand.New(rand.NewPCG(1, 1))).Sweep(synthetic.Grid(4, 32768, 4), 7)
	for b.Loop() {
		if _, err := RunAudit(context.Background(), data, Default(), nil); err != nil {
			b.Fatal(err)
		}
	}
}
