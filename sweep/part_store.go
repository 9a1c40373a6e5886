package sweep

import (
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// block is a block that was measured, with what is still to be done about it.
type block struct {
	station  *station
	sample   results.Sample
	expected time.Duration // that it was to take
}

// telemetry is the state of the device, as it was lately.
func (p *part) telemetry(now time.Time) kernels.Telemetry {
	began := p.r.Now()
	t := p.gauge.at(now)
	p.rig.watch.took(&p.rig.watch.Telemetry, began)
	return t
}

// store writes a sample down and tells the observer of it. On a device that runs blocks by
// itself the next block runs meanwhile. A process that is killed so loses two blocks at most:
// the one that runs, and the one behind it or the one that has just ended.
func (p *part) store(b block) error {
	if err := p.r.journal.append(&b.sample); err != nil {
		return err
	}
	p.lastSeq = max(p.lastSeq, b.sample.Seq)
	s := b.station
	// To find a library's kernel out takes the host longer than some blocks take, and the first
	// round keeps it busy with planning: a later one tells as well.
	if !s.asked && (b.sample.Round > 0 || p.certain() == 1) {
		s.asked = true
		label, launch := s.told()
		if label == "" {
			label = s.c.Label
		}
		if launch = launch.Or(s.c.Launch); label != s.c.Label || launch != s.c.Launch {
			s.c.Label, s.c.Launch = label, launch
			if err := p.r.Out.SetLaunch(s.c.ID, label, launch); err != nil {
				return err
			}
		}
	}
	p.report(s, b.sample, b.sample.Round, b.expected)
	return nil
}
