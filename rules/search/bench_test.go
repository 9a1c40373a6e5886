package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// BenchmarkPartition searches the sums of 32 768 rows, M from 1 to 32 768, on at most two processors.
func BenchmarkPartition(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	ms := synthetic.Grid(1, 32768, 1)
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
					New(ms, cost, parts)
				}
			})
		}
	}
}
