package sweep

import (
	"context"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestSerialRequests(t *testing.T) {
	serial := map[int][2]int{} // by M: serial blocks, and all
	d := &simulated.Starter{Device: declared(func(c *simulated.Config) {
		c.Observe = func(b simulated.Block) {
			n := serial[b.Launches[0].Task.M]
			if n[1]++; b.Serial {
				n[0]++
			}
			serial[b.Launches[0].Task.M] = n
		}
	})}
	m, err := NewMeasurer(MeasureConfig{Devices: []kernels.Device{d}, Now: d.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := m.Measure(context.Background(), []results.Request{
		{Case: simCase(8), Phase: results.PhaseRemedy}, {Case: simCase(16), Phase: results.PhaseRemedy, Serial: true}}, 9)
	if err != nil || len(got[0]) != 9 || len(got[1]) != 9 {
		t.Fatalf("%d and %d samples, %v", len(got[0]), len(got[1]), err)
	}
	if serial[8][0] != 0 || serial[16][0] != 9 {
		t.Errorf("blocks that were serial, and all: %v; want none of M 8 and the nine samples of M 16", serial)
	}
}
