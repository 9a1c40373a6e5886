package simulated

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/lazymemory"
)

// Config describes a device of declared costs. Only a kernel is required.
type Config struct {
	ID    string       // default "sim"
	Kind  kernels.Kind // default kernels.CPU
	Seed  uint64       // of noise
	Noise Disturbances
	// Drift is a factor on every time after this many virtual seconds; nil is 1.
	Drift func(seconds float64) float64
	// Gemms are the kernels of matrix products, Attentions those of attention, Softmaxes those of softmax and its logarithm.
	Gemms, Attentions, Softmaxes []KernelConfig
	// Kernels are further kernels of any operation.
	Kernels map[kernels.Operation][]KernelConfig
	// Ceilings default to 1 TFLOP/s measured for every type and 100 GB/s.
	Ceilings kernels.Ceilings
	// MemoryBytes defaults to 16 GiB, LastLevelCacheBytes to 32 MiB.
	MemoryBytes         int64
	LastLevelCacheBytes int64
	// Faults are the kernels' known faults.
	Faults []kernels.KnownFault
	// ClockMHz and PowerW are reported with every block and telemetry reading.
	ClockMHz, PowerW float64
	// Clock replaces ClockMHz: the clock after this many virtual seconds.
	Clock func(seconds float64) float64
	// Governor replaces both: a power limit with a clock that depends on the blocks. Costs are at its highest
	// clock.
	Governor *Governor
	// HostOverhead is virtual time between blocks, outside their spans.
	HostOverhead time.Duration
	// LoseAfter makes the device fail after this many blocks; 0 is never.
	LoseAfter int
	// Observe is called with every block before it runs.
	Observe func(Block)
}

// Block is one call of Execute, for tests.
type Block struct {
	Launches []LaunchInfo // in order, not repeated
	N        int
	Serial   bool
}

// LaunchInfo describes a launch's operands. A copy has no task.
type LaunchInfo struct {
	kernels.Task
	Kernel           string
	Copied           int64 // bytes copied; 0 if no copy
	Weights          int   // number of the weight copy, from 1 in order of preparation
	AOffset, COffset int   // in elements
}

// Device is a simulated device. Any goroutine may read its virtual clock.
type Device struct {
	cfg     Config
	spec    kernels.Spec
	kernels map[kernels.Operation][]kernels.Kernel
	// card is set if the times come from a machine.
	card *Card
	rng  *rand.Rand

	mu      sync.Mutex
	elapsed float64 // virtual seconds
	used    int64   // bytes allocated
	buffers uint64  // allocated so far
	blocks  int
	busy    float64
	weights int
	closed  bool
	power   governed
	flying  []float64 // end times of the blocks in flight, in virtual seconds
	noise   disturbed
}

var (
	_ kernels.Device       = (*Device)(nil)
	_ kernels.MemoryTeller = (*Device)(nil)
	_ kernels.LaunchCopier = (*Device)(nil)
	_ kernels.TimesOnly    = (*Device)(nil)
	_ kernels.Starter      = (*Starter)(nil)
	_ kernels.Primer       = (*Starter)(nil)
)

var epoch = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// New returns a device; equal configurations behave equally, block by block.
func New(cfg Config) *Device {
	if cfg.ID == "" {
		cfg.ID = "sim"
	}
	if cfg.Kind == "" {
		cfg.Kind = kernels.CPU
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = 16 << 30
	}
	if cfg.LastLevelCacheBytes == 0 {
		cfg.LastLevelCacheBytes = 32 << 20
	}
	if cfg.Ceilings.Peaks == nil {
		for _, d := range kernels.DTypes() {
			cfg.Ceilings.Peaks = append(cfg.Ceilings.Peaks,
				kernels.Peak{DType: d, FLOPS: 1e12, Origin: kernels.Measured, ClockMHz: cfg.ClockMHz, Unit: "simulated"})
		}
	}
	if cfg.Ceilings.ReadBandwidth == 0 {
		cfg.Ceilings.ReadBandwidth, cfg.Ceilings.CopyBandwidth = 100e9, 100e9
	}
	d := &Device{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6b65726e)), kernels: map[kernels.Operation][]kernels.Kernel{},
		spec: kernels.Spec{
			ID: cfg.ID, Kind: cfg.Kind, Name: "simulated device", Units: 1, MemoryBytes: cfg.MemoryBytes,
			LastLevelCacheBytes: cfg.LastLevelCacheBytes, Versions: map[string]string{"simulated": "1"}, Faults: cfg.Faults,
		}}
	for o, all := range cfg.all() {
		for _, k := range all {
			d.kernels[o] = append(d.kernels[o], k.kernel(d))
		}
	}
	return d
}

// all lists the kernels by operation.
func (c Config) all() map[kernels.Operation][]KernelConfig {
	out := map[kernels.Operation][]KernelConfig{}
	for o, all := range c.Kernels {
		out[o] = slices.Clone(all)
	}
	for part, all := range map[kernels.ModelParts][]KernelConfig{
		kernels.Projections: c.Gemms, kernels.PromptAttention: c.Attentions, kernels.TokenAttention: c.Attentions,
		kernels.Probabilities: c.Softmaxes, kernels.LogProbabilities: c.Softmaxes, kernels.ExpertProjections: c.loops(),
	} {
		out[part.Operation()] = append(out[part.Operation()], all...)
	}
	return out
}

// Spec implements [kernels.Device].
func (d *Device) Spec() kernels.Spec { return d.spec }

// Ceilings implements [kernels.Device].
func (d *Device) Ceilings(context.Context) (kernels.Ceilings, error) { return d.cfg.Ceilings, nil }

// Kernels implements [kernels.Device].
func (d *Device) Kernels(o kernels.Operation) []kernels.Kernel { return d.kernels[o] }

// Missing implements [kernels.Device].
func (d *Device) Missing() []kernels.Missing { return nil }

// TimesOnly implements [kernels.TimesOnly].
func (d *Device) TimesOnly() bool {
	for _, all := range d.cfg.all() {
		if slices.ContainsFunc(all, func(k KernelConfig) bool { return k.Arithmetic }) {
			return false
		}
	}
	return true
}

// FreeMemory implements [kernels.MemoryTeller].
func (d *Device) FreeMemory() (int64, bool) { return d.cfg.MemoryBytes - d.Used(), true }

// Used returns the bytes allocated and not freed.
func (d *Device) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// Alloc implements [kernels.Device]. Host memory is used only once the buffer is written or read.
func (d *Device) Alloc(bytes int64) (kernels.Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("%s: %d bytes asked for", d.cfg.ID, bytes)
	}
	if err := d.take(bytes); err != nil {
		return nil, err
	}
	d.buffers++
	return &buffer{Memory: lazymemory.New(bytes), device: d, place: d.buffers}, nil
}

func (d *Device) take(bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bytes > d.cfg.MemoryBytes-d.used {
		return fmt.Errorf("%s: out of memory: %d bytes asked for, %d of %d in use", d.cfg.ID, bytes, d.used, d.cfg.MemoryBytes)
	}
	d.used += bytes
	return nil
}

func (d *Device) release(bytes int64) {
	d.mu.Lock()
	d.used -= bytes
	d.mu.Unlock()
}

// Now returns the virtual time, which begins at a fixed date.
func (d *Device) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return epoch.Add(time.Duration(d.elapsed * 1e9))
}

// Advance advances virtual time outside blocks.
func (d *Device) Advance(t time.Duration) {
	d.mu.Lock()
	d.elapsed += t.Seconds()
	d.mu.Unlock()
}

// Busy returns the virtual time spent in blocks, and their number.
func (d *Device) Busy() (time.Duration, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.busy * 1e9), d.blocks
}

// Execute implements [kernels.Device]: it adds the true times, applies disturbances and advances the virtual clock.
func (d *Device) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	span, end, err := d.begin(ctx, kernels.Block{Launches: launches, N: n})
	if err != nil {
		return kernels.Span{}, err
	}
	d.end(end)
	return span, nil
}

// idle returns an error while a block is in flight: other work would affect its time or operands.
func (d *Device) idle(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.flying) > 0 {
		return fmt.Errorf("%s: %s while a block is in flight", d.cfg.ID, what)
	}
	return nil
}

func (d *Device) end(at float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.elapsed = max(d.elapsed, at) + d.cfg.HostOverhead.Seconds()
}

// own returns the device's launches.
func (d *Device) own(launches []kernels.Launch) ([]*launch, error) {
	out := make([]*launch, len(launches))
	for i, l := range launches {
		own, ok := l.(*launch)
		if !ok || own.device != d {
			return nil, fmt.Errorf("%s: launch %d was bound on another device", d.cfg.ID, i)
		}
		out[i] = own
	}
	return out, nil
}

func (d *Device) begin(ctx context.Context, block kernels.Block) (span kernels.Span, end float64, err error) {
	n := block.N
	if err := ctx.Err(); err != nil {
		return span, 0, fmt.Errorf("%s: %w", d.cfg.ID, err)
	}
	if len(block.Launches) == 0 || n < 1 {
		return span, 0, fmt.Errorf("%s: %d launches of a list of %d", d.cfg.ID, n, len(block.Launches))
	}
	if d.cfg.LoseAfter > 0 && d.blocks >= d.cfg.LoseAfter {
		return span, 0, fmt.Errorf("%s: %w after %d blocks", d.cfg.ID, kernels.ErrDeviceLost, d.blocks)
	}
	launches, err := d.own(block.Launches)
	if err != nil {
		return span, 0, err
	}
	if d.cfg.Observe != nil {
		seen := Block{N: n, Serial: block.Serial}
		for _, l := range launches {
			seen.Launches = append(seen.Launches, l.info)
		}
		d.cfg.Observe(seen)
	}
	// The block's time and energy at the nominal clock.
	launches = launches[:min(n, len(launches))]
	times := make([]float64, len(launches))
	var nominal, energy float64
	for i, l := range launches {
		if err := l.run(); err != nil {
			return span, 0, err
		}
		times[i] = float64((n-i-1)/len(block.Launches)+1) * l.seconds()
		nominal += times[i]
		energy += times[i] * l.watts()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.elapsed
	if n := len(d.flying); n > 0 {
		at = max(at, d.flying[n-1]) // after the block in flight
	}
	if d.card != nil {
		span = d.card.span(launches, times, nominal, energy/nominal)
	} else {
		span = d.span(launches[0].row, nominal, energy/nominal, at)
	}
	d.busy += span.Seconds
	d.blocks++
	return span, at + span.Seconds, nil
}

// span is a block of declared costs that begins at a time.
func (d *Device) span(first *row, seconds, watts, at float64) kernels.Span {
	nominal := seconds
	if d.cfg.Drift != nil {
		seconds *= d.cfg.Drift(at)
	}
	seconds *= math.Exp(d.noise.next(d.cfg.Noise, d.rng, first, nominal))
	mhz := d.cfg.ClockMHz
	if d.cfg.Clock != nil {
		mhz = d.cfg.Clock(at)
	}
	if g := d.cfg.Governor; g != nil {
		mhz = g.clock(&d.power, at)
		seconds *= g.MaxMHz / mhz
		g.ran(&d.power, watts, at, seconds)
	}
	return kernels.Span{Seconds: seconds, ClockMHz: mhz}
}

// Telemetry implements [kernels.Device].
func (d *Device) Telemetry() kernels.Telemetry {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.card != nil {
		return d.card.telemetry()
	}
	t := kernels.Telemetry{PowerW: d.cfg.PowerW}
	if g := d.cfg.Governor; g != nil {
		if t.PowerW = min(g.LimitW, d.power.watts); g.limited(&d.power) {
			t.Throttle = kernels.Throttled(kernels.PowerCap)
		}
	}
	return t
}

// Close implements [kernels.Device].
func (d *Device) Close() error {
	if d.closed {
		return fmt.Errorf("%s: closed twice", d.cfg.ID)
	}
	d.closed = true
	return nil
}
