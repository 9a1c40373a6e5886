package infer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
)

// One of two cards slows down by half. Only its drift is reported, and the other's times don't change.
func TestDriftOfEachDevice(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var sentinels []results.Sample
	for i := range 200 {
		slow := 1 + 0.5*float64(i)/200
		sentinels = append(sentinels,
			results.Sample{CaseID: 1, Seq: int64(2 * i), US: 100 * slow * (1 + 0.002*rng.NormFloat64())},
			results.Sample{CaseID: 2, Seq: int64(2*i + 1), US: 100 * (1 + 0.002*rng.NormFloat64())})
	}
	device := map[int64]string{1: "cuda:0", 2: "cuda:1"}
	d := fitDrifts(sentinels, device, nil)
	if !d["cuda:0"].significant() || d["cuda:0"].span < 0.4 || d["cuda:1"].significant() {
		t.Errorf("drifts of %.3f and %.3f", d["cuda:0"].span, d["cuda:1"].span)
	}
	if invalid := DriftPast(sentinels, device, 0.3); !strings.HasPrefix(invalid, "cuda:0: the sentinels drifted by") {
		t.Errorf("invalid: %q", invalid)
	}
	if fitDrifts(sentinels, map[int64]string{9: "cpu"}, nil).Most() == 0 {
		t.Error("the only device of a run has no drift")
	}
}
