package remedy

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func BenchmarkSplits(b *testing.B) {
	data := synthetic.ByM(synthetic.ManySlow, synthetic.Student(0.02), rand.New(rand.NewPCG(1, 1))).Sweep(synthetic.Grid(4, 32768, 4), 7)
	for b.Loop() {
		if _, err := Find(context.Background(), data, rules.Default(), Options{Among: AmongAll}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPublished(b *testing.B) {
	data := synthetic.Rtx4090(b)
	for b.Loop() {
		if _, err := rules.RunAudit(context.Background(), data, articleConfig(0.85), nil); err != nil {
			b.Fatal(err)
		}
		if _, err := Find(context.Background(), data, rules.Default(),
			Options{Method: rules.MethodArticle, Threshold: 0.85, Ratio: 0.9, Among: AmongAll}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
