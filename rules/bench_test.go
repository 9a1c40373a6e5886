package rules

import (
	"context"
	"math/rand/v2"
	"testing"
)

// BenchmarkAudit judges 8192 rows of seven samples by all rules.
func BenchmarkAudit(b *testing.B) {
	data := byM(manySlow, student(0.02), rand.New(rand.NewPCG(1, 1))).sweep(grid(4, 32768, 4), 7)
	for b.Loop() {
		if _, err := RunAudit(context.Background(), data, Default(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSplits seeks remedies of up to four parts for all of 8192 rows.
func BenchmarkSplits(b *testing.B) {
	data := byM(manySlow, student(0.02), rand.New(rand.NewPCG(1, 1))).sweep(grid(4, 32768, 4), 7)
	for b.Loop() {
		if _, err := FindSplits(context.Background(), data, Default(), SplitOptions{Among: AmongAll}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublished is the article's audit and all-rows split search of the
// published sweep of 8197 rows.
func BenchmarkPublished(b *testing.B) {
	data := rtx4090(b)
	for b.Loop() {
		if _, err := RunAudit(context.Background(), data, articleConfig(0.85), nil); err != nil {
			b.Fatal(err)
		}
		if _, err := FindSplits(context.Background(), data, Default(), SplitOptions{Method: MethodArticle, Threshold: 0.85, Ratio: 0.9, Among: AmongAll}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
