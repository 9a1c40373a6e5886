package simulated

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/lazymemory"
)

// DeviceID is the id of every simulated device.
const DeviceID = "sim:0"

// Session describes one stay on a machine.
type Session struct {
	Seed uint64 // of the noise
	// Hot starts at the temperature of two minutes of load, else at that of a device
	// that did nothing.
	Hot bool
}

// Device is one session on a [Machine]. It is used by one goroutine at a time.
type Device struct {
	machine *Machine
	rng     *rand.Rand
	clock   governor
	gemms   []kernels.Gemm
	softmax []kernels.SoftmaxKernel
	elapsed float64 // virtual seconds
	memory  int64   // bytes in use
	buffers uint64  // allocated so far
	last    *row    // that ran before
	warmth  float64 // of Drift, 0 to 1
	wander  float64
	spell   bool          // other work is at it; see Spell
	loaded  map[*row]bool // whose code is
	rows    map[place]*row
	closed  bool
}

// place is an M of a kernel.
type place struct {
	kernel string
	m      int
}

var (
	_ kernels.Device        = (*Device)(nil)
	_ kernels.MemoryTeller  = (*Device)(nil)
	_ kernels.Primer        = (*Device)(nil)
	_ kernels.SoftmaxLister = (*Device)(nil)
)

const (
	memoryBytes = 16 << 30
	cacheBytes  = 10 << 20
	// hostTime is what passes between two blocks.
	hostTime = 30e-6
	// loadTime is what the first run of a row takes more than later ones.
	loadTime = 1e-3
	// warmTime and wanderTime are the time constants of Drift and Wander.
	warmTime, wanderTime = 0.5, 0.2
)

// epoch is when every simulated device was switched on.
var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// Open begins a session.
func (m *Machine) Open(s Session) *Device {
	d := &Device{
		machine: m, rng: rand.New(rand.NewPCG(mix(m.cfg.Seed, s.Seed), 0x6465766963)),
		loaded: map[*row]bool{}, rows: map[place]*row{},
	}
	d.clock = governor{on: m.cfg.PowerLimited, rng: d.rng, temp: ambientC + 5, power: idleW}
	d.buffers = mix(s.Seed) >> 16 << 8 // another session finds other places in memory
	if s.Hot {
		d.clock.temp = ambientC + degreesPerW*powerLimitW
	}
	for _, c := range m.curves {
		if m.cfg.Columns > 0 {
			d.softmax = append(d.softmax, &softmax{device: d, name: c.name})
		} else {
			d.gemms = append(d.gemms, &gemm{device: d, name: c.name})
		}
	}
	return d
}

// Spec implements [kernels.Device].
func (d *Device) Spec() kernels.Spec {
	return kernels.Spec{
		ID: DeviceID, Kind: kernels.CUDA, Name: "simulated device", Units: units,
		MemoryBytes: memoryBytes, LastLevelCacheBytes: cacheBytes,
		Settings: map[string]string{kernels.PowerLimit: fmt.Sprintf("%d W", powerLimitW)},
	}
}

// Ceilings implements [kernels.Device].
func (d *Device) Ceilings(context.Context) (kernels.Ceilings, error) {
	return d.machine.Ceilings(), nil
}

// Gemms implements [kernels.Device].
func (d *Device) Gemms() []kernels.Gemm { return d.gemms }

// SoftmaxKernels implements [kernels.SoftmaxLister].
func (d *Device) SoftmaxKernels() []kernels.SoftmaxKernel { return d.softmax }

// Missing implements [kernels.Device].
func (d *Device) Missing() []kernels.Missing { return nil }

// FreeMemory implements [kernels.MemoryTeller].
func (d *Device) FreeMemory() (int64, bool) { return memoryBytes - d.memory, true }

// Alloc implements [kernels.Device].
func (d *Device) Alloc(bytes int64) (kernels.Buffer, error) {
	if bytes < 0 || bytes > memoryBytes-d.memory {
		return nil, fmt.Errorf("%s: %d bytes asked for, %d of %d in use", DeviceID, bytes, d.memory, int64(memoryBytes))
	}
	d.memory += bytes
	d.buffers++
	return &buffer{Memory: lazymemory.New(bytes), device: d, place: d.buffers}, nil
}

// Now is the virtual time, which begins at a fixed date.
func (d *Device) Now() time.Time { return epoch.Add(time.Duration(d.elapsed * 1e9)) }

// Rest lets time pass with nothing to do.
func (d *Device) Rest(t time.Duration) {
	d.elapsed += t.Seconds()
	d.clock.rest(t.Seconds())
	d.warmth *= math.Exp(-t.Seconds() / warmTime)
}

// UsualClockMHz is the mean clock, in logs, at which blocks have run so far.
func (d *Device) UsualClockMHz() float64 {
	if d.clock.time == 0 {
		return NominalClockMHz
	}
	return NominalClockMHz * math.Exp(d.clock.sum/d.clock.time)
}

// EnergyMJ is the energy drawn since the device was opened, in millijoules.
func (d *Device) EnergyMJ() (float64, error) { return d.clock.energy * 1e3, nil }

// Telemetry implements [kernels.Device].
func (d *Device) Telemetry() kernels.Telemetry {
	if d.machine.cfg.ClockUntold {
		return kernels.Telemetry{}
	}
	t := kernels.Telemetry{PowerW: d.clock.power, TempC: d.clock.temp}
	if d.clock.on && d.clock.x < math.Log(maxClockMHz/float64(NominalClockMHz)) {
		t.Throttle = kernels.Throttled(kernels.PowerCap)
	}
	return t
}

// Prime implements [kernels.Primer].
func (d *Device) Prime(ctx context.Context, l kernels.Launch) (float64, error) {
	own, err := d.own(l)
	if err != nil || d.loaded[own.row] {
		return 0, err
	}
	d.loaded[own.row] = true
	span, err := d.Execute(ctx, []kernels.Launch{l}, 1)
	if err != nil {
		return 0, err
	}
	d.Rest(time.Duration(loadTime * 1e9))
	return span.Seconds + loadTime, nil
}

func (d *Device) own(l kernels.Launch) (*launch, error) {
	own, ok := l.(*launch)
	if !ok || own.device != d {
		return nil, fmt.Errorf("%s: a launch was bound on another device", DeviceID)
	}
	return own, nil
}

// Execute implements [kernels.Device]: it adds up true times, disturbs them and
// advances the virtual clock.
func (d *Device) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	if err := ctx.Err(); err != nil {
		return kernels.Span{}, fmt.Errorf("%s: %w", DeviceID, err)
	}
	if d.closed || len(launches) == 0 || n < 1 {
		return kernels.Span{}, fmt.Errorf("%s: %d launches of a list of %d", DeviceID, n, len(launches))
	}
	// What the block would take at the nominal clock, and the power it draws there.
	var nominal, energy float64
	var first *launch
	for i, l := range launches[:min(n, len(launches))] {
		own, err := d.own(l)
		if err != nil {
			return kernels.Span{}, err
		}
		if first == nil {
			first = own
		}
		t := float64((n-i-1)/len(launches)+1) * own.row.seconds
		nominal += t
		energy += t * own.row.watts
	}
	clock := d.clock.run(energy/nominal, nominal)
	// Modes are drawn for each row of the block and hold for all its launches.
	var seconds float64
	modes := map[*row]float64(nil)
	for i, l := range launches[:min(n, len(launches))] {
		own := l.(*launch)
		t := float64((n-i-1)/len(launches)+1) * own.row.seconds
		log := -own.row.beta*clock + own.placed
		if own.row.slowBy > 0 {
			if modes == nil {
				modes = map[*row]float64{}
			}
			mode, drawn := modes[own.row]
			if !drawn {
				if d.rng.Float64() < own.row.slowShare {
					mode = own.row.slowBy
				}
				modes[own.row] = mode
			}
			log += mode
		}
		seconds += t * math.Exp(log)
	}
	seconds *= math.Exp(d.disturb(first.row, nominal))
	d.last = launches[min(n, len(launches))-1].(*launch).row
	d.elapsed += seconds + hostTime
	d.clock.rest(hostTime)
	span := kernels.Span{Seconds: seconds}
	if !d.machine.cfg.ClockUntold {
		span.ClockMHz = NominalClockMHz * math.Exp(clock)
		if d.clock.on {
			span.ClockMHz *= math.Exp(clockRead * d.rng.NormFloat64())
		}
	}
	return span, nil
}

// disturb draws the log of what a block of a row takes more than its launches should.
func (d *Device) disturb(r *row, seconds float64) float64 {
	cfg := &d.machine.cfg.Disturbances
	y := cfg.Sigma * d.rng.NormFloat64()
	if cfg.HeavyTailed {
		chi := 0.0
		for range 3 {
			v := d.rng.NormFloat64()
			chi += v * v
		}
		y /= math.Sqrt(chi) // variance 3 of Student's t, over its 3 degrees of freedom
	}
	if cfg.Stray > 0 && d.rng.Float64() < cfg.Stray {
		y += 0.1 * math.Exp(0.7*d.rng.NormFloat64())
	}
	if cfg.Drift != 0 {
		d.warmth += (1 - d.warmth) * -math.Expm1(-seconds/warmTime)
		y += cfg.Drift * d.warmth
	}
	if cfg.Wander > 0 {
		keep := math.Exp(-seconds / wanderTime)
		d.wander = keep*d.wander + cfg.Wander*math.Sqrt(1-keep*keep)*d.rng.NormFloat64()
		y += d.wander
	}
	if cfg.Delayed > 0 {
		// A spell and the rest between two end within the block with these chances.
		change := 1.0
		if cfg.Spell > 0 {
			change = -math.Expm1(-seconds / (cfg.Spell * (1 - cfg.Delayed)))
		}
		if d.rng.Float64() < change {
			d.spell = d.rng.Float64() < cfg.Delayed
		}
		if d.spell {
			y += cfg.Delay * d.rng.ExpFloat64()
		}
	}
	if cfg.Cache > 0 && d.last != nil && d.last != r {
		y += cfg.Cache * r.sensitivity * d.last.footprint
	}
	return y
}

// Close implements [kernels.Device].
func (d *Device) Close() error {
	if d.closed {
		return fmt.Errorf("%s: closed twice", DeviceID)
	}
	d.closed = true
	return nil
}

// row is the truth of an M of a kernel. What lies off the grid is drawn once a session.
func (d *Device) row(kernel string, m int) *row {
	key := place{kernel, m}
	if r := d.rows[key]; r != nil {
		return r
	}
	r := d.machine.find(kernel, m)
	d.rows[key] = r
	return r
}
