package diff

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// diffDrift is the drift of the sentinels, as a share of the time, above which a run is not compared: the
// pace of a run is relative to its own usual moment, which differs between runs.
const diffDrift = 0.30

// Compare compares two runs: fingerprints first, then every case that both have, then the findings. It compares
// the logs of times by Welch's t with pooled scales (see the package comment). The hypothesis is that the
// ratio lies within the threshold, on either side.
func Compare(a, b infer.Data, cfg rules.Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	d := newDiff(a.Name, b.Name, cfg)
	d.fingerprints(a.Meta, b.Meta)
	clocksA, clocksB := d.clocks(a, b, cfg)
	pa, pb := infer.PrepareAt(a, clocksA), infer.PrepareAt(b, clocksB)
	if !sameLocations(pa, pb) {
		pa, pb = infer.PrepareCentred(a, clocksA), infer.PrepareCentred(b, clocksB)
	}
	var unsteady []string
	for _, side := range []struct {
		name string
		p    *infer.Estimates
	}{{a.Name, pa}, {b.Name, pb}} {
		if why := side.p.Drift.Invalid(min(cfg.DriftBound, diffDrift)); why != "" {
			if side.p.Drift.Invalid(cfg.DriftBound) == "" {
				why += "; this run can be audited, but a comparison needs a steadier machine"
			}
			unsteady = append(unsteady, side.name+": "+why)
		}
	}
	d.Invalid = strings.Join(unsteady, "; ")
	pairs := matchCurves(infer.FirstChoices(pa.Curves), infer.FirstChoices(pb.Curves))
	d.threads(pairs)
	d.confound()
	d.compareDisturbance(pairs, cfg)
	d.cases(pairs, pa, pb, cfg)
	d.compareOrder(pairs, a, b)
	d.Losses = losses(infer.FirstChoices(pa.Curves), pb.Curves, pairs)
	d.Losses.A, d.Losses.B = a.Name, b.Name
	d.findings(pairs, pa, pb, cfg)
	if len(d.Cases) == 0 {
		d.Invalid = cmp.Or(d.Invalid, "the runs have no case in common"+nearest(a, b))
	}
	d.gate()
	return d, nil
}

// sameLocations reports whether the rows of both runs use the same location estimator, on the devices that
// both have.
func sameLocations(a, b *infer.Estimates) bool {
	for id, s := range a.Scatter {
		if other, both := b.Scatter[id]; both && other.Low() != s.Low() {
			return false
		}
	}
	return true
}

// machineFactors are the lines of a fingerprint that change together on another machine. They count as one
// factor.
var machineFactors = []string{"cpu model", "microcode", "cores", "memory", "arch", "hypervisor", "smt", "name", "units", "caches",
	"features", "vbios", "max sm clock", "max memory clock"}

// followers are lines of a device that change with another line because they come in one package. They count
// as that line.
var followers = map[string]string{"nvml": "driver", "cuda driver api": "driver", "cublaslt": "cublas"}
