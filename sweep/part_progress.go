package sweep

import (
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

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
