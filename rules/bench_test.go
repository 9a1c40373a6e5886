package rules

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

func BenchmarkAudit(b *testing.B) {
	data := byM(manySlow, student(0.02), rand.New(rand.NewPCG(1, 1))).sweep(grid(4, 32768, 4), 7)
	for b.Loop() {
		if _, err := RunAudit(context.Background(), data, Default(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSplits(b *testing.B) {
	data := byM(manySlow, student(0.02), rand.New(rand.NewPCG(1, 1))).sweep(grid(4, 32768, 4), 7)
	for b.Loop() {
		if _, err := FindSplits(context.Background(), data, Default(), SplitOptions{Among: AmongAll}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPublished(b *testing.B) {
	data := rtx4090(b)
	for b.Loop() {
		if _, err := RunAudit(context.Background(), data, articleConfig(0.85), nil); err != nil {
			b.Fatal(err)
		}
		if _, err := FindSplits(context.Background(), data, Default(),
			SplitOptions{Method: MethodArticle, Threshold: 0.85, Ratio: 0.9, Among: AmongAll}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPartition searches the sums of 32 768 rows, M from 1 to 32 768, on at most two processors.
func BenchmarkPartition(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	ms := grid(1, 32768, 1)
	kinds := []struct {
		name string
		us   func(m int) float64
	}{
		{"waves", func(m int) float64 { return 5 + 12*math.Ceil(float64(m)/528)*math.Exp(0.01*random.NormFloat64()) }},
		{"proportional", func(m int) float64 { return 0.02 * float64(m) * math.Exp(0.02*random.NormFloat64()) }},
		{"random", func(int) float64 { return 1 + random.Float64() }},
	}
	for _, kind := range kinds {
		cost := make([]float64, len(ms))
		for i, m := range ms {
			cost[i] = kind.us(m)
		}
		for _, parts := range []int{2, 4, 16} {
			b.Run(fmt.Sprintf("%s/parts=%d", kind.name, parts), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(min(2, runtime.NumCPU())))
				for b.Loop() {
					newPartition(ms, cost, parts)
				}
			})
		}
	}
}
