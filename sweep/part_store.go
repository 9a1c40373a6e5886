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
	others, err := s.record(p.r.Out, b.sample.Phase, b.sample.Round)
	if err != nil {
		return err
	}
	if len(others) > 0 && !p.changed {
		p.changed = true
		p.r.note("launch-differs: %v ran %s in round %d, %s before; an audit lists all such rows", s.c, others[0].Label, others[0].Round,
			s.c.Label)
	}
	if len(s.ran) == 0 && !s.asked && (b.sample.Round > 0 || p.certain() == 1) {
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

func (p *part) reckon(round int) {
	var left time.Duration
	for i, s := range p.stations {
		if p.gone[i] {
			continue
		}
		if p.awaits(i, round) && !p.have[i].has(round) {
			left += p.blockTime(s)
		}
		for n := round + 1; n < p.promised(i); n++ {
			if p.awaits(i, n) && !p.have[i].has(n) {
				left += max(p.r.Plan.BlockTarget, time.Duration(s.seconds*1e9))
			}
		}
	}
	p.r.mu.Lock()
	p.r.left[p.rig.spec.ID] = left
	p.r.mu.Unlock()
}

func (p *part) report(s *station, smp results.Sample, round int, expected time.Duration) {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	id := p.rig.spec.ID
	r.left[id] = max(0, r.left[id]-expected)
	now := r.Now()
	prog := Progress{
		Device: id, Round: round, Rounds: r.Plan.Rounds, Done: r.done, Planned: r.planned,
		Elapsed: now.Sub(r.start), Case: s.c, US: smp.US,
	}
	for _, left := range r.left {
		prog.Left = max(prog.Left, left)
	}
	if p.design != nil {
		r.known[id] = p.known()
	}
	for _, k := range r.known {
		prog.Known.add(k)
	}
	if prog.Elapsed > 0 {
		prog.Busy = p.rig.busy / prog.Elapsed.Seconds()
	}
	if peak, ok := r.ceilings[id].Roof(s.c.Subject); ok && peak.FLOPS > 0 {
		prog.MFU = s.c.FLOPs() / (smp.US / 1e6) / peak.FLOPS
	}
	r.Observer.Sample(s.c, smp)
	r.Observer.Progress(prog)
}
