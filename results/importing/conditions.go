package importing

import (
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// rates reads the ceilings of a line's device. The highest of several count, as in merging.
func (p *parsed) rates(l *sampleLine) error {
	cell := l.f.in(l.ceilings)
	if cell == "" {
		return nil
	}
	var c kernels.Ceilings
	if err := results.DecodeJSON(cell, &c); err != nil {
		return l.f.fail(l.ceilings.name, "is not a JSON object of peaks and bandwidths")
	}
	if err := results.CheckCeilings(c); err != nil {
		return l.f.fail(l.ceilings.name, "is impossible: %v", err)
	}
	p.ceilings = results.HighestCeilings(p.ceilings, map[string]kernels.Ceilings{l.rec.c.Device: c})
	return nil
}

func (p *parsed) clock(l *sampleLine) error {
	mhz, err := l.f.optionalIn(l.reference)
	if err != nil || mhz == 0 {
		return err
	}
	if mhz < 0 {
		return l.f.fail(l.reference.name, "is below 0")
	}
	device := l.rec.c.Device
	if before, known := p.clocks[device]; known && before != mhz {
		mhz = 0
	}
	p.clocks[device] = mhz
	return nil
}

// conditions reads values that must be constant in the run.
func (p *parsed) conditions(f *csvFile) error {
	if f.cell("distribution") != "" {
		s, err := f.text("distribution")
		if err != nil {
			return err
		}
		if p.distribution != "" && string(p.distribution) != s {
			return whole(f.fail("distribution", "differs from %q before: a run has one", p.distribution))
		}
		p.distribution = kernels.Distribution(s)
	}
	if s := f.cell("seed"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return f.fail("seed", "is not a seed: expected 0 to 18446744073709551615")
		}
		if p.seedKnown && seed != p.seed {
			return whole(f.fail("seed", "differs from %d before: a run has one", p.seed))
		}
		p.seed, p.seedKnown = seed, true
	}
	return nil
}
