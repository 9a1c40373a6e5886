package sweep

import (
	"sync"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// journal numbers the blocks of all devices and stores each at once, if there is a run.
type journal struct {
	run   *results.Run
	mu    sync.Mutex
	seq   int64
	first int64
}

func openJournal(run *results.Run) (*journal, error) {
	j := &journal{run: run}
	if run == nil {
		return j, nil
	}
	var err error
	j.seq, err = run.NextSeq()
	j.first = j.seq
	return j, err
}

func (j *journal) taken() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return int(j.seq - j.first)
}

func (j *journal) append(s *results.Sample) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Seq = j.seq
	if j.run != nil {
		if err := j.run.Append(*s); err != nil {
			return err
		}
	}
	j.seq++
	return nil
}

func (j *journal) fail(f results.Failure) error {
	if j.run == nil {
		return nil
	}
	return j.run.Fail(f)
}

const telemetryEvery = 20 * time.Millisecond

type gauge struct {
	device kernels.Device
	dog    *watchdog
	read   time.Time
	last   kernels.Telemetry
}

func (g *gauge) at(now time.Time) kernels.Telemetry {
	if g.read.IsZero() || now.Sub(g.read) >= telemetryEvery {
		g.dog.enter(0, "tell its state")
		g.last, g.read = g.device.Telemetry(), now
		g.dog.leave()
	}
	return g.last
}

func (b *rig) sample(c results.Case, phase results.Phase, round, n int, started time.Time, span kernels.Span,
	t kernels.Telemetry) results.Sample {
	return results.Sample{
		CaseID: c.ID, Phase: phase, Round: round, StartedUnixMicro: started.UnixMicro(),
		Launches: n, US: span.Seconds * 1e6 / float64(n), ClockMHz: span.ClockMHz, Disturbance: span.Disturbance.String(),
		Allocation: b.allocation, HostUS: span.Host.Seconds() * 1e6 * float64(launchesOf(c)),
		PowerW: t.PowerW, TempC: t.TempC, Throttle: t.Throttle,
	}
}
