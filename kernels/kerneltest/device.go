package kerneltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/lazymemory"
)

// Config describes a simulated device. Only Gemms or Attentions must be given.
type Config struct {
	ID    string       // default "sim"
	Kind  kernels.Kind // default kernels.CPU
	Seed  uint64       // of noise
	Noise Noise
	// Drift is the factor on every time after that many seconds of virtual time; nil is 1.
	Drift func(seconds float64) float64
	Gemms []GemmConfig
	// Attentions are simulated kernels of attention.
	Attentions []AttentionConfig
	// Softmaxes are kernels of softmax.
	Softmaxes []SoftmaxConfig
	// Ceilings default to 1 TFLOP/s measured for every type and 100 GB/s.
	Ceilings kernels.Ceilings
	// MemoryBytes defaults to 16 GiB, LastLevelCacheBytes to 32 MiB.
	MemoryBytes         int64
	LastLevelCacheBytes int64
	// Faults are the known faults of the kernels.
	Faults []kernels.KnownFault
	// ClockMHz and PowerW are reported with every block and reading.
	ClockMHz, PowerW float64
	// Clock takes the place of ClockMHz: the clock after that many seconds of virtual time.
	Clock func(seconds float64) float64
	// Governor takes the place of both: a power limit that the blocks themselves set the
	// clock by. Costs are those at its highest clock.
	Governor *Governor
	// HostOverhead is virtual time that passes around each block outside of it.
	HostOverhead time.Duration
	// LoseAfter makes the device be lost after that many blocks; 0 is never.
	LoseAfter int
	// Observe is called with every block before it runs.
	Observe func(Block)
}

// GemmConfig describes a simulated kernel.
type GemmConfig struct {
	Name   string
	DTypes []kernels.DType // nil supports every type
	MaxM   int             // largest M that is supported; 0 supports every one
	Cost   Cost
	// BindError and ExecuteError make problems fail; nil or a nil error is success.
	BindError    func(p kernels.Problem) error
	ExecuteError func(p kernels.Problem) error
	// Label names what runs inside, as a library's choice of algorithm would.
	Label func(p kernels.Problem) string
	// Tiling is what launches tell of how they divide their work; nil is nothing.
	Tiling func(p kernels.Problem) kernels.Tiling
	// Choice is what the kernel says that it would run, in place of what Label and Tiling
	// say. Without any of the three it says that it tells nothing.
	Choice func(p kernels.Problem) (kernels.Choice, error)
	// Arithmetic computes products for real; those of many multiplications are then not supported.
	Arithmetic bool
	// Sum is what the kernel makes of a sum, before it is rounded to the output's type; nil
	// leaves it exact.
	Sum func(p kernels.Problem, sum float64) float64
	// Packs makes PrepareWeights hold a copy, as packing kernels do.
	Packs bool
	// PackTime is virtual time that packing a copy takes.
	PackTime time.Duration
	// Quantised is the cost of products with quantised weights; nil takes none.
	Quantised Cost
	// Candidates are the choices after the first, as kernels.Candidates has them.
	// Their names follow from this one's.
	Candidates []GemmConfig
	// Algorithms are run by their attributes, as kernels.AlgorithmTaker has it; nil takes none.
	Algorithms map[kernels.Algorithm]GemmConfig
}

// Block is one call of Execute, as tests see it.
type Block struct {
	Launches []LaunchInfo // in the order given, not repeated
	N        int
	Serial   bool
}

// LaunchInfo is what a launch was bound to.
type LaunchInfo struct {
	Kernel           string
	Problem          kernels.Problem
	Products         int               // of a batch of products; 0 where it is none
	Copied           int64             // bytes of a copy; 0 where it is none
	Attention        kernels.Attention // where it is no product
	Softmax          kernels.SoftmaxProblem
	Weights          int // identifies the weight copy, from 1 in order of preparation
	AOffset, COffset int // in elements
}

// Device is a simulated device. Its virtual clock may be read by any goroutine.
type Device struct {
	cfg        Config
	gemms      []kernels.Gemm
	attentions []kernels.AttentionKernel
	softmaxes  []kernels.SoftmaxKernel
	rng        *rand.Rand

	mu      sync.Mutex
	elapsed float64 // virtual seconds
	used    int64   // bytes allocated
	blocks  int
	busy    float64
	weights int
	closed  bool
	power   governed
	flying  []float64 // when the blocks in flight end, in virtual seconds
}

var _ kernels.Device = (*Device)(nil)
var _ kernels.MemoryTeller = (*Device)(nil)
var _ kernels.AttentionLister = (*Device)(nil)
var _ kernels.SoftmaxLister = (*Device)(nil)
var _ kernels.Starter = (*Starter)(nil)
var _ kernels.Primer = (*Starter)(nil)

// epoch is when every simulated device was switched on.
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
	d := &Device{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6b65726e))}
	for _, g := range cfg.Gemms {
		switch one := (&gemm{device: d, cfg: g}); {
		case len(g.Candidates) > 0:
			d.gemms = append(d.gemms, &chooser{one})
		case g.Algorithms != nil:
			d.gemms = append(d.gemms, &taker{one})
		case g.Quantised != nil:
			d.gemms = append(d.gemms, quantiser{one})
		default:
			d.gemms = append(d.gemms, one)
		}
	}
	for _, a := range cfg.Attentions {
		d.attentions = append(d.attentions, &attention{device: d, cfg: a})
	}
	for _, s := range cfg.Softmaxes {
		d.softmaxes = append(d.softmaxes, &softmax{device: d, cfg: s})
	}
	return d
}

// Spec implements kernels.Device.
func (d *Device) Spec() kernels.Spec {
	return kernels.Spec{
		ID: d.cfg.ID, Kind: d.cfg.Kind, Name: "simulated device", Units: 1,
		MemoryBytes: d.cfg.MemoryBytes, LastLevelCacheBytes: d.cfg.LastLevelCacheBytes,
		Versions: map[string]string{"kerneltest": "1"}, Faults: d.cfg.Faults,
	}
}

// Ceilings implements kernels.Device.
func (d *Device) Ceilings(context.Context) (kernels.Ceilings, error) { return d.cfg.Ceilings, nil }

// Gemms implements kernels.Device.
func (d *Device) Gemms() []kernels.Gemm { return d.gemms }

// AttentionKernels implements kernels.AttentionLister.
func (d *Device) AttentionKernels() []kernels.AttentionKernel { return d.attentions }

// SoftmaxKernels implements kernels.SoftmaxLister.
func (d *Device) SoftmaxKernels() []kernels.SoftmaxKernel { return d.softmaxes }

// Missing implements kernels.Device.
func (d *Device) Missing() []kernels.Missing { return nil }

// FreeMemory implements kernels.MemoryTeller.
func (d *Device) FreeMemory() (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg.MemoryBytes - d.used, true
}

// Alloc implements kernels.Device. Memory is taken from the host only when
// something is written to it or read from it.
func (d *Device) Alloc(bytes int64) (kernels.Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("%s: %d bytes asked for", d.cfg.ID, bytes)
	}
	if err := d.take(bytes); err != nil {
		return nil, err
	}
	return &buffer{Memory: lazymemory.New(bytes), device: d}, nil
}

func (d *Device) take(bytes int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used+bytes > d.cfg.MemoryBytes {
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

// Used is the number of bytes allocated and not yet freed.
func (d *Device) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// Now is the virtual time, which begins at a fixed date.
func (d *Device) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return epoch.Add(time.Duration(d.elapsed * 1e9))
}

// Advance lets virtual time pass outside of any block.
func (d *Device) Advance(t time.Duration) {
	d.mu.Lock()
	d.elapsed += t.Seconds()
	d.mu.Unlock()
}

// Busy is the virtual time spent inside blocks, and their number.
func (d *Device) Busy() (time.Duration, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.busy * 1e9), d.blocks
}

// Execute implements kernels.Device: it adds up the declared costs, disturbs them
// and advances the virtual clock.
func (d *Device) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	span, end, err := d.begin(ctx, kernels.Block{Launches: launches, N: n})
	if err != nil {
		return kernels.Span{}, err
	}
	d.end(end)
	return span, nil
}

// idle is an error while a block is in flight: what is to be done would be timed with it, or
// take its operands away.
func (d *Device) idle(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.flying) > 0 {
		return fmt.Errorf("%s: %s while a block is in flight", d.cfg.ID, what)
	}
	return nil
}

// end lets the block be over.
func (d *Device) end(at float64) {
	d.mu.Lock()
	d.elapsed = max(d.elapsed, at) + d.cfg.HostOverhead.Seconds()
	d.mu.Unlock()
}

// begin works out what a block takes and when it ends, in virtual seconds.
func (d *Device) begin(ctx context.Context, block kernels.Block) (span kernels.Span, end float64, err error) {
	launches, n := block.Launches, block.N
	if err := ctx.Err(); err != nil {
		return span, 0, fmt.Errorf("%s: %w", d.cfg.ID, err)
	}
	if len(launches) == 0 || n < 1 {
		return span, 0, fmt.Errorf("%s: %d launches of a list of %d", d.cfg.ID, n, len(launches))
	}
	if d.cfg.LoseAfter > 0 && d.blocks >= d.cfg.LoseAfter {
		return span, 0, fmt.Errorf("%s: %w after %d blocks", d.cfg.ID, kernels.ErrDeviceLost, d.blocks)
	}
	if d.cfg.Observe != nil {
		d.cfg.Observe(describe(block))
	}
	var seconds, watts, total float64
	for i, l := range launches[:min(n, len(launches))] {
		own, ok := l.(*launch)
		if !ok || own.device != d {
			return span, 0, fmt.Errorf("%s: launch %d was bound on another device", d.cfg.ID, i)
		}
		if err := own.run(); err != nil {
			return span, 0, err
		}
		times := (n-i-1)/len(launches) + 1
		cost := float64(times) * own.cost()
		seconds += cost
		if g := d.cfg.Governor; g != nil {
			watts, total = watts+cost*g.Watts(own.info.Problem), total+cost
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.elapsed
	if n := len(d.flying); n > 0 {
		at = max(at, d.flying[n-1]) // behind the block in flight
	}
	if d.cfg.Drift != nil {
		seconds *= d.cfg.Drift(at)
	}
	seconds *= d.cfg.Noise.factor(d.rng)
	mhz := d.cfg.ClockMHz
	if d.cfg.Clock != nil {
		mhz = d.cfg.Clock(at)
	}
	if g := d.cfg.Governor; g != nil {
		mhz = g.clock(&d.power, at)
		seconds *= g.MaxMHz / mhz
		g.ran(&d.power, watts/total, at, seconds)
	}
	d.busy += seconds
	d.blocks++
	return kernels.Span{Seconds: seconds, ClockMHz: mhz}, at + seconds, nil
}

// Starter is a simulated device that runs blocks by itself: virtual time that passes
// between start and wait passes beside the block. What a real device must not be asked for
// while blocks are in flight is an error.
type Starter struct {
	*Device
	// Late makes what fails be told by the end of its block instead of its start.
	Late bool
	// Starting is virtual time that Start takes of the host.
	Starting time.Duration
}

// Start implements kernels.Starter.
func (s *Starter) Start(ctx context.Context, block kernels.Block) (func() (kernels.Span, error), error) {
	if len(s.flying) == 2 {
		return nil, fmt.Errorf("%s: two blocks are in flight", s.cfg.ID)
	}
	s.Advance(s.Starting)
	span, end, failure := s.begin(ctx, block)
	if failure != nil {
		if !s.Late {
			return nil, failure
		}
		end = s.elapsed
		if n := len(s.flying); n > 0 {
			end = max(end, s.flying[n-1])
		}
	}
	s.flying = append(s.flying, end)
	waited := false
	return func() (kernels.Span, error) {
		if waited || s.flying[0] != end {
			return kernels.Span{}, fmt.Errorf("%s: a block was waited for before the one ahead of it, or twice", s.cfg.ID)
		}
		waited, s.flying = true, s.flying[1:]
		if failure == nil {
			s.end(end)
		}
		return span, failure
	}, nil
}

// Prime implements kernels.Primer: no first run takes longer than later ones.
func (s *Starter) Prime(context.Context, kernels.Launch) (float64, error) { return 0, nil }

// Execute implements kernels.Device.
func (s *Starter) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	if err := s.idle("execute"); err != nil {
		return kernels.Span{}, err
	}
	wait, err := s.Start(ctx, kernels.Block{Launches: launches, N: n})
	if err != nil {
		return kernels.Span{}, err
	}
	return wait()
}

func describe(block kernels.Block) Block {
	b := Block{N: block.N, Serial: block.Serial}
	for _, l := range block.Launches {
		if own, ok := l.(*launch); ok {
			b.Launches = append(b.Launches, own.info)
		}
	}
	return b
}

// Telemetry implements kernels.Device.
func (d *Device) Telemetry() kernels.Telemetry {
	t := kernels.Telemetry{PowerW: d.cfg.PowerW}
	if g := d.cfg.Governor; g != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if t.PowerW = min(g.LimitW, d.power.watts); g.limited(&d.power) {
			t.Throttle = kernels.Throttled(kernels.PowerCap)
		}
	}
	return t
}

// Close implements kernels.Device.
func (d *Device) Close() error {
	if d.closed {
		return fmt.Errorf("%s: closed twice", d.cfg.ID)
	}
	d.closed = true
	return nil
}
