package simulated

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// DeviceID is the id of every card of a machine.
const DeviceID = "sim:0"

// Session describes one session on a machine.
type Session struct {
	Seed uint64 // of the noise
	// Hot starts at the temperature after two minutes of load instead of at idle.
	Hot bool
}

// Card is one session on a [Machine]: a device with a temperature, a clock that may be limited by its power, and an energy
// counter. One goroutine at a time may use it.
type Card struct {
	*Device
	machine *Machine
	clock   governor
	loaded  map[*row]bool // whose code is
	rows    map[place]*row
}

type place struct {
	kernel string
	m      int
}

var (
	_ kernels.Primer      = (*Card)(nil)
	_ kernels.EnergyMeter = (*Card)(nil)
)

const (
	memoryBytes = 16 << 30
	cacheBytes  = 10 << 20
	// hostTime is the time between two blocks.
	hostTime = 30 * time.Microsecond
	// loadTime is the extra time of a row's first run.
	loadTime = 1e-3
	// copyOverhead is a copy's overhead in seconds, copyWatts its dynamic power.
	copyOverhead, copyWatts = 1.5e-6, 290
	// copyBeta is the copy's clock elasticity.
	copyBeta = 0.1
)

// Open begins a session.
func (m *Machine) Open(s Session) *Card {
	c := &Card{machine: m, loaded: map[*row]bool{}, rows: map[place]*row{}}
	cfg := Config{ID: DeviceID, Kind: kernels.CUDA, MemoryBytes: memoryBytes, LastLevelCacheBytes: cacheBytes,
		Ceilings: m.Ceilings(), HostOverhead: hostTime}
	for _, of := range m.curves {
		k := KernelConfig{Name: of.name, subject: m.cfg.Subject(), truth: func(at int) *row { return c.row(of.name, at) }}
		if m.cfg.Columns > 0 {
			cfg.Softmaxes = append(cfg.Softmaxes, k)
		} else {
			cfg.Gemms = append(cfg.Gemms, k)
		}
	}
	c.Device = New(cfg)
	c.card, c.rng = c, rand.New(rand.NewPCG(mix(m.cfg.Seed, s.Seed), 0x6465766963))
	c.spec.Units, c.spec.Versions = units, nil
	c.spec.Settings = map[string]string{kernels.PowerLimit: fmt.Sprintf("%d W", powerLimitW)}
	c.clock = governor{on: m.cfg.PowerLimited, rng: c.rng, temp: ambientC + 5, power: idleW}
	c.buffers = mix(s.Seed) >> 16 << 8 // another session has other memory addresses
	if s.Hot {
		c.clock.temp = ambientC + degreesPerW*powerLimitW
	}
	return c
}

// Launch binds one M of a kernel to operands of its own, which live as long as the card.
func (c *Card) Launch(kernel string, m int) (kernels.Launch, error) {
	t := kernels.Task{Subject: c.machine.cfg.Subject(), M: m}
	k, err := kernels.Find(c, t.Operation, kernel)
	if err != nil {
		return nil, err
	}
	var buffers [3]kernels.Buffer
	in, out := int64(t.DType.Size()), int64(t.DType.Output().Size())
	for i, bytes := range []int64{t.Stored(m), t.InputElements(m) * in, t.OutputElements(m) * out} {
		if buffers[i], err = c.Alloc(bytes); err != nil {
			return nil, err
		}
	}
	w, err := k.Prepare(t, buffers[0])
	if err != nil {
		return nil, err
	}
	return k.Bind(t, kernels.Operand{Buffer: buffers[1]}, w, kernels.Operand{Buffer: buffers[2]})
}

// row returns the truth for an M of a kernel. Rows off the grid are drawn once per session.
func (c *Card) row(kernel string, m int) *row {
	key := place{kernel, m}
	r := c.rows[key]
	if r == nil {
		r = c.machine.find(kernel, m)
		c.rows[key] = r
	}
	return r
}

// copying is the truth for a copy of so many bytes.
func (c *Card) copying(bytes int64) *row {
	key := place{copyKernel, int(bytes)}
	r := c.rows[key]
	if r == nil {
		r = &row{kernel: copyKernel, label: copyKernel, id: mix(hashName(copyKernel), uint64(bytes)),
			seconds: CopySeconds(bytes), beta: copyBeta, watts: copyWatts}
		c.rows[key] = r
	}
	return r
}

// CopySeconds returns the true time of a copy at NominalClockMHz.
func CopySeconds(bytes int64) float64 { return copyOverhead + 2*float64(bytes)/bandwidth }

// CopyElasticity returns β of a copy.
func CopyElasticity() float64 { return copyBeta }

// placed is the effect of the operands' addresses on a row.
func (c *Card) placed(r *row, in, out kernels.Operand) float64 {
	if c.machine.cfg.Allocation == 0 {
		return 0
	}
	return c.machine.cfg.Allocation * normal(mix(r.id, in.Buffer.(*buffer).place, out.Buffer.(*buffer).place))
}

// Rest lets idle time pass.
func (c *Card) Rest(t time.Duration) {
	c.Advance(t)
	c.clock.rest(t.Seconds())
	c.noise.warmth *= math.Exp(-t.Seconds() / warmTime)
}

// UsualClockMHz returns the geometric mean clock of the blocks so far.
func (c *Card) UsualClockMHz() float64 {
	if c.clock.time == 0 {
		return NominalClockMHz
	}
	return NominalClockMHz * math.Exp(c.clock.sum/c.clock.time)
}

// EnergyMJ implements [kernels.EnergyMeter]: the millijoules drawn since the session began.
func (c *Card) EnergyMJ() (float64, error) { return c.clock.energy * 1e3, nil }

// Prime implements [kernels.Primer].
func (c *Card) Prime(ctx context.Context, l kernels.Launch) (float64, error) {
	own, err := c.own([]kernels.Launch{l})
	if err != nil || c.loaded[own[0].row] {
		return 0, err
	}
	c.loaded[own[0].row] = true
	span, err := c.Execute(ctx, []kernels.Launch{l}, 1)
	if err != nil {
		return 0, err
	}
	c.Rest(time.Duration(loadTime * 1e9))
	return span.Seconds + loadTime, nil
}

// span runs launches for their times at the nominal clock, which add up to nominal.
func (c *Card) span(launches []*launch, times []float64, nominal, watts float64) kernels.Span {
	clock := c.clock.run(watts, nominal)
	var seconds float64
	modes := map[*row]float64{} // drawn once per block
	for i, l := range launches {
		log := -l.row.beta*clock + l.placed
		if l.row.slowBy > 0 {
			mode, drawn := modes[l.row]
			if !drawn {
				if c.rng.Float64() < l.row.slowShare {
					mode = l.row.slowBy
				}
				modes[l.row] = mode
			}
			log += mode
		}
		seconds += times[i] * math.Exp(log)
	}
	seconds *= math.Exp(c.noise.next(c.machine.cfg.Disturbances, c.rng, launches[0].row, nominal))
	c.noise.last = launches[len(launches)-1].row
	c.clock.rest(hostTime.Seconds())
	span := kernels.Span{Seconds: seconds}
	if !c.machine.cfg.ClockUntold {
		span.ClockMHz = NominalClockMHz * math.Exp(clock)
		if c.clock.on {
			span.ClockMHz *= math.Exp(clockRead * c.rng.NormFloat64())
		}
	}
	return span
}

func (c *Card) telemetry() kernels.Telemetry {
	if c.machine.cfg.ClockUntold {
		return kernels.Telemetry{}
	}
	t := kernels.Telemetry{PowerW: c.clock.power, TempC: c.clock.temp}
	if c.clock.on && c.clock.x < math.Log(maxClockMHz/float64(NominalClockMHz)) {
		t.Throttle = kernels.Throttled(kernels.PowerCap)
	}
	return t
}
