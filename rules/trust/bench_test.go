package trust

import (
	"context"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
)

// BenchmarkMachine covers one machine: two sweeps and their audits, with remedies, and a third sweep with a
// deadline.
func BenchmarkMachine(b *testing.B) {
	for _, name := range []string{"quiet", "clock"} {
		b.Run(name, func(b *testing.B) {
			kinds, _, err := KindsNamed(name)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			if _, err := Run(context.Background(),
				Options{Machines: b.N, Seed: 1, Kinds: kinds, Config: rules.Default(), Workers: 1}); err != nil {
				b.Fatal(err)
			}
		})
	}
}
