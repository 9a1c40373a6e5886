package sweep

import (
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

type block struct {
	station  *station
	sample   results.Sample
	expected time.Duration
}

func (p *part) telemetry(now time.Time) kernels.Telemetry {
	began := p.r.Now()
	t := p.gauge.at(now)
	p.rig.watch.took(&p.rig.watch.Telemetry, began)
	return t
}

// store writes a sample while the next block runs, on an asynchronous device. A killed process loses at most
// two blocks.
func (p *part) store(b block) error {
	if err := p.r.journal.append(&b.sample); err != nil {
		return err
	}
	p.lastSeq = max(p.lastSeq, b.sample.Seq)
	s := b.station
	// Asking for a library's kernel takes the host longer than some blocks. The first round is busy with
	// planning, and a later round gives the same answer.
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
