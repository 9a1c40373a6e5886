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
	fresh    bool          // the first of its case in this start
	expected time.Duration // that it was to take
}

// meanwhile is what the host does while a block runs: it stores what was measured before, asks
// the device for its state and makes the next launches. So a process that is killed loses the
// block in progress and at most the one before it, which ended a moment ago.
func (p *part) meanwhile() {
	p.flush() // its error is kept
	p.telemetryAt(p.r.Now())
	if p.upcoming != nil {
		p.bench.prebind(p.upcoming)
	}
}

// telemetry is the state of the device in a block that began at a time: as it was read
// meanwhile, or else after the block.
func (p *part) telemetry(started time.Time) kernels.Telemetry {
	if p.bench.meanwhile != nil {
		return p.gauge.last
	}
	return p.telemetryAt(started)
}

func (p *part) telemetryAt(now time.Time) kernels.Telemetry {
	began := p.r.Now()
	t := p.gauge.at(now)
	p.bench.watch.took(&p.bench.watch.Telemetry, began)
	return t
}

// flush stores the blocks that were measured and are not stored yet, and tells the observer
// of them. After an error nothing more is stored: the run file holds what came before.
func (p *part) flush() error {
	if p.failure != nil || len(p.queue) == 0 {
		return p.failure
	}
	began := p.r.Now()
	for i := range p.queue {
		if p.failure = p.store(&p.queue[i]); p.failure != nil {
			p.samples -= len(p.queue) - i
			break
		}
	}
	p.queue = p.queue[:0]
	p.bench.watch.took(&p.bench.watch.Journal, began)
	return p.failure
}

func (p *part) store(b *block) error {
	if err := p.r.journal.append(&b.sample); err != nil {
		return err
	}
	p.taken = append(p.taken, b.sample)
	s := b.station
	if b.fresh {
		if label := s.label(); label != "" {
			s.c.Label = label
			if err := p.r.Out.SetLabel(s.c.ID, label); err != nil {
				return err
			}
		}
	}
	p.report(s, b.sample, b.sample.Round, b.expected)
	return nil
}
