// Package trial simulates fleets with known faults, and counts correct verdicts.
package trial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// Fault is a simulated fault of a card.
type Fault struct {
	Kind fleet.Kind
	// Depth is the slowdown, as a share, where its kind shows.
	Depth float64
	// From is the first process that has it, 0 for all.
	From int
}

// Config describes a fleet. The zero value of a field is its default.
type Config struct {
	Seed  uint64
	Cards int
	// PerHost is the number of cards per host, Processes the number of runs per card. Further runs are of
	// another night.
	PerHost, Processes int
	// Ms are the rows of each kernel's curve, Samples the number of samples of each.
	Ms      []int
	Samples int
	// Host, Card and Process are standard deviations of log times at the common clock, Sample that of one sample.
	Host, Card, Process, Sample float64
	// Drift is the fleet's total slowdown over the night, as a share, and Wander the amplitude of its
	// variation.
	Drift, Wander float64
	// InTurn measures the cards one after the other; else the processes of each are spread over the night.
	InTurn bool
	// Faults are by card.
	Faults map[int]Fault
	// Modes makes every odd card slower by that share.
	Modes float64
	// OtherDriver is the number of last cards with a driver that is slower by OtherBy.
	OtherDriver int
	OtherBy     float64
	// LowerLimit is the number of first cards with a power limit of 500 W and a clock that is lower by
	// LowerBy.
	LowerLimit int
	LowerBy    float64
}

// Properties of a simulated card.
const (
	Model      = "simulated card"
	night      = 10 * time.Hour
	clockMHz   = 1700.0
	peakFLOPS  = 700e12
	bandwidth  = 4e12
	linkRate   = 20e9
	cardSpread = 0.01 // of the clocks of cards, in logs
)

// began is the start of every fleet's night.
var began = time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC)

// Default returns the fleet for which the promised rates hold.
func Default(cards int, seed uint64) Config {
	return Config{Seed: seed, Cards: cards, PerHost: 1, Processes: 3, Ms: []int{1, 16, 64, 1024, 2048, 4096}, Samples: 5,
		Card: 0.003, Process: 0.002, Sample: 0.004, Drift: 0.01, Wander: 0.003}
}

// Fleet is a simulated fleet with its configuration.
type Fleet struct {
	Config
	host, card, clock []float64
	cases             []results.Case
	seconds           []float64 // by case
	beta              []float64
}

// New makes a fleet.
func New(c Config) *Fleet {
	f := &Fleet{Config: c}
	f.PerHost, f.Processes = max(1, c.PerHost), max(1, c.Processes)
	rng := rand.New(rand.NewPCG(c.Seed, 0x666c656574))
	for i := range c.Cards {
		if i%f.PerHost == 0 {
			f.host = append(f.host, c.Host*rng.NormFloat64())
		}
		x := c.Card * rng.NormFloat64()
		if i%2 == 1 {
			x += math.Log1p(c.Modes)
		}
		f.card = append(f.card, x)
		f.clock = append(f.clock, cardSpread*rng.NormFloat64())
	}
	for _, kernel := range []string{"cublas", "ours"} {
		for _, m := range c.Ms {
			s := kernels.Product(kernels.BF16, 4096, 4096)
			s.Layout = kernels.Transposed
			k := results.Case{ID: int64(len(f.cases)) + 1, M: m,
				SeriesKey: results.SeriesKey{Kernel: kernel, Subject: s, Regime: results.Engine}}
			compute, memory := k.FLOPs()/peakFLOPS, k.Bytes()/bandwidth
			f.cases = append(f.cases, k)
			f.seconds = append(f.seconds, 2e-6+math.Max(compute, memory)+0.1*math.Min(compute, memory))
			if compute > memory {
				f.beta = append(f.beta, 1)
			} else {
				f.beta = append(f.beta, 0.1)
			}
		}
	}
	return f
}

// Device is the id of a card on its host.
func (f *Fleet) Device(card int) string { return fmt.Sprintf("cuda:%d", card%f.PerHost) }

// UUID returns a card's UUID.
func UUID(card int) string { return fmt.Sprintf("GPU-%08d", card) }

// CardOf is the card of a UUID, -1 for none.
func CardOf(uuid string) int {
	var n int
	if _, err := fmt.Sscanf(uuid, "GPU-%d", &n); err != nil {
		return -1
	}
	return n
}

// Run is one process of one card.
func (f *Fleet) Run(card, process int) runs.Run {
	rng := rand.New(rand.NewPCG(f.Seed^0x72756e, uint64(card)<<20|uint64(process)))
	share := rng.Float64()
	if f.InTurn {
		share = (float64(card) + (float64(process)+rng.Float64())/float64(f.Processes)) / float64(f.Cards)
	} else if f.Processes > 1 { // one after the other, over the night
		share = (float64(process%f.Processes) + share) / float64(f.Processes)
	}
	start := began.Add(time.Duration(share * float64(night)))
	own := f.Process*rng.NormFloat64() + f.card[card] + f.host[card/f.PerHost]
	own += math.Log1p(f.Drift)*share + f.Wander*math.Sin(2*math.Pi*share)
	host := fmt.Sprintf("node%04d", card/f.PerHost)
	id := f.Device(card)
	device := kernels.Spec{ID: id, Kind: kernels.KindOf(id), Name: Model, UUID: UUID(card), Units: 132, MemoryBytes: 80 << 30,
		LastLevelCacheBytes: 50 << 20,
		Versions:            map[string]string{"driver": "580.1"}, Settings: map[string]string{"power limit": "700 W"}}
	if card >= f.Cards-f.OtherDriver {
		device.Versions["driver"] = "575.2"
		own += math.Log1p(f.OtherBy)
	}
	clock := f.clock[card]
	if card < f.LowerLimit {
		device.Settings["power limit"] = "500 W"
		clock -= math.Log1p(f.LowerBy)
	}
	fault, broken := f.Faults[card]
	broken = broken && process >= fault.From
	state := results.Sample{PowerW: 690, TempC: 65 + 2*rng.NormFloat64()}
	read := bandwidth * math.Exp(0.002*rng.NormFloat64())
	throttled, reason := 0.5, kernels.PowerCap
	if broken {
		switch fault.Kind {
		case fleet.Clock:
			clock -= math.Log1p(fault.Depth)
		case fleet.Thermal:
			clock -= math.Log1p(fault.Depth)
			state.TempC, throttled, reason = 88, 0.9, kernels.TooHotDriver
		case fleet.Power:
			clock -= math.Log1p(fault.Depth)
			state.PowerW, throttled = 520, 1
		case fleet.Memory:
			read /= 1 + fault.Depth
		}
	}
	run := runs.Run{Path: fmt.Sprintf("%s/gpu%d-%d.db", host, card%f.PerHost, process),
		ID: fmt.Sprintf("%016x%08x%08x", f.Seed, card, process), Host: host,
		Labels: map[string]string{"rack": fmt.Sprint(card / f.PerHost / 8)}, Cards: map[string]string{id: UUID(card)},
		Meta: results.Meta{Schema: results.SchemaVersion, Created: start, Command: "gemmaudit sweep", Gemmaudit: "1.0",
			Regime: results.Engine, Distribution: kernels.Normal,
			Labels: results.Labels{"rack": fmt.Sprint(card / f.PerHost / 8)},
			Fingerprint: results.Fingerprint{Gemmaudit: "1.0", Hostname: host, OS: "Debian 12", Kernel: "6.1", Arch: "amd64",
				CPUModel: "simulated", Devices: []kernels.Spec{device}},
			Ceilings: map[string]kernels.Ceilings{id: {ReadBandwidth: read}}, ReferenceClock: map[string]float64{id: clockMHz}}}
	if f.Modes > 0 { // labels the two kinds of cards
		run.Labels["vendor"], run.Meta.Labels["vendor"] = fmt.Sprint(card%2), fmt.Sprint(card%2)
	}
	for i, k := range f.cases {
		y := math.Log(1e6*f.seconds[i]) + own
		if broken {
			switch {
			case fault.Kind == fleet.AllCases, fault.Kind == fleet.Memory && f.beta[i] < 0.5,
				fault.Kind == fleet.Kernel && k.Kernel == "ours":
				y += math.Log1p(fault.Depth)
			}
		}
		k.Device = id
		row := results.Row{Case: k}
		for round := range f.Samples {
			s := state
			x := clock + 0.01*rng.NormFloat64()
			s.CaseID, s.Phase, s.Round, s.Seq, s.Launches = k.ID, results.PhaseSweep, round, int64(round*len(f.cases)+i), 10
			s.StartedUnixMicro = start.UnixMicro() + s.Seq*5000
			s.US = math.Exp(y - f.beta[i]*x + f.Sample*rng.NormFloat64())
			s.ClockMHz = clockMHz * math.Exp(x)
			if rng.Float64() < throttled {
				s.Throttle = kernels.Throttled(reason)
			}
			row.Samples = append(row.Samples, s)
		}
		if n := len(run.Series); n == 0 || run.Series[n-1].Key != k.SeriesKey {
			run.Series = append(run.Series, results.Series{Key: k.SeriesKey})
		}
		s := &run.Series[len(run.Series)-1]
		s.Rows = append(s.Rows, row)
	}
	link := linkRate * math.Exp(0.01*rng.NormFloat64())
	if broken && fault.Kind == fleet.Link {
		link /= 1 + fault.Depth
	}
	run.Meta.Ceilings[id] = kernels.Ceilings{ReadBandwidth: read, LinkBandwidth: link}
	return run
}

// Judge collects all runs of the fleet and judges them.
func (f *Fleet) Judge(s fleet.Settings, b *fleet.Baseline) *fleet.Result {
	c := fleet.NewCollector(s, b)
	for card := range f.Cards {
		for process := range f.Processes {
			c.Add(f.Run(card, process))
		}
	}
	return c.Result()
}

// Write writes a run of the fleet as a run file below dir and returns its path.
func (f *Fleet) Write(dir string, card, process int) (path string, err error) {
	run := f.Run(card, process)
	path = filepath.Join(dir, fmt.Sprintf("%s-gpu%d-%d.db", run.Host, card%f.PerHost, process))
	file, err := results.Create(path, run.Meta)
	if err != nil {
		return "", err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	var cases []results.Case
	for _, s := range run.Series {
		for _, row := range s.Rows {
			cases = append(cases, row.Case)
		}
	}
	if cases, err = file.AddCases(cases); err != nil {
		return "", err
	}
	at := 0
	for _, s := range run.Series {
		for _, row := range s.Rows {
			for _, x := range row.Samples {
				x.CaseID = cases[at].ID
				if err := file.Append(x); err != nil {
					return "", err
				}
			}
			at++
		}
	}
	return path, nil
}
