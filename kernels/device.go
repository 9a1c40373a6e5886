package kernels

import (
	"cmp"
	"context"
	"time"
)

// PeakOrigin says where a peak rate comes from; it is stored with every MFU.
type PeakOrigin string

// The origins of a peak.
const (
	Given     PeakOrigin = "given"      // by the user, with imported data
	DataSheet PeakOrigin = "data-sheet" // the vendor's figure at the vendor's clock
	Computed  PeakOrigin = "computed"   // units × width × clock
	Measured  PeakOrigin = "measured"   // from registers, on this device
	Published PeakOrigin = "published"  // read back from an imported file's own utilisation
	Relative  PeakOrigin = "relative"   // none is known: the series' fastest row stands for it
)

// Peak is the rate that MFU is relative to.
type Peak struct {
	DType  DType      `json:"dtype"`
	FLOPS  float64    `json:"flops"` // operations a second, whole device
	Origin PeakOrigin `json:"origin"`
	// ClockMHz is the clock to which FLOPS belongs, 0 when unknown.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// Unit names what was counted: "AMX", "AVX-512 FMA", "tensor core".
	Unit string `json:"unit,omitempty"`
	// Memory is the bandwidth from which FLOPS follows where memory alone bounds an operation.
	Memory Bandwidth `json:"memory,omitzero"`
}

// Transfer is what a bandwidth was measured by.
type Transfer string

// The transfers.
const (
	Reading Transfer = "read"
	Copying Transfer = "copy" // what is read and what is written count
)

// Bandwidth is that of memory.
type Bandwidth struct {
	Rate float64  `json:"rate"` // bytes a second, 0 when unknown
	Of   Transfer `json:"of"`
	// Origin is [DataSheet] where the vendor says it, and empty where it was measured.
	Origin PeakOrigin `json:"origin,omitempty"`
}

// At scales the peak to a clock in MHz: what the device could do had it run at
// that clock throughout. 0 where either clock is unknown.
func (p Peak) At(clockMHz float64) float64 {
	if p.ClockMHz <= 0 || clockMHz <= 0 {
		return 0
	}
	return p.FLOPS * clockMHz / p.ClockMHz
}

// Cache is one level of a device's caches.
type Cache struct {
	Level int   `json:"level"`
	Bytes int64 `json:"bytes"` // of one instance
	Count int   `json:"count"` // instances among the device's cores
}

// Spec describes a device. It is read once and does not change.
type Spec struct {
	ID   string `json:"id"`   // "cpu", "cuda:0"
	Kind Kind   `json:"kind"` // see [Kind.Facts]
	Name string `json:"name"` // "INTEL(R) XEON(R) PLATINUM 8592+"
	// UUID tells a card from others of its kind; empty where there is none.
	UUID        string   `json:"uuid,omitempty"`
	Units       int      `json:"units"`
	MemoryBytes int64    `json:"memory_bytes"`
	Caches      []Cache  `json:"caches,omitempty"`
	Features    []string `json:"features,omitempty"` // "avx512_bf16", "sm_90a"
	// LastLevelCacheBytes is what weights must rotate past to come from memory.
	LastLevelCacheBytes int64 `json:"llc_bytes"`
	// Versions of what takes part: "driver", "openblas", "onednn", "microcode".
	Versions map[string]string `json:"versions,omitempty"`
	// Settings are what somebody may change about the device and what changes its
	// times: "power limit", "ecc", "mig", "max sm clock".
	Settings map[string]string `json:"settings,omitempty"`
	// Faults are the known faults of the libraries that are kernels of the device.
	Faults []KnownFault `json:"faults,omitempty"`
}

// RotationFactor is how many times the last-level cache the memory holds that operands
// rotate over, so that each launch reads its own from memory.
const RotationFactor = 3

// Ceilings are the rates that a device was seen or is said to reach.
type Ceilings struct {
	Peaks []Peak `json:"peaks"`
	// ReadBandwidth and CopyBandwidth are in bytes a second; copy
	// counts read and write.
	ReadBandwidth float64 `json:"read_bandwidth"`
	CopyBandwidth float64 `json:"copy_bandwidth"`
	// BandwidthOrigin is [DataSheet] where the vendor says the two, and empty where they were measured.
	BandwidthOrigin PeakOrigin `json:"bandwidth_origin,omitempty"`
	// LinkBandwidth is that of uploads from the host's ordinary memory, measured, in bytes a second; 0 where there is no link or
	// it was not measured.
	LinkBandwidth float64 `json:"link_bandwidth,omitempty"`
}

// Peak returns the peak for d of the preferred origin: given by the user, else measured, else computed,
// else data sheet, else published with imported figures. ok is false when none is known.
func (c Ceilings) Peak(d DType) (p Peak, ok bool) {
	for _, origin := range []PeakOrigin{Given, Measured, Computed, DataSheet, Published} {
		for _, p := range c.Peaks {
			if p.DType == d && p.Origin == origin {
				return p, true
			}
		}
	}
	return Peak{}, false
}

// Bandwidth is the one that an operation is held against: that of reading, or of copying where
// nothing stays in memory from launch to launch, so that as much is written as is read. Files
// without the latter have the former in its place.
func (c Ceilings) Bandwidth(o Operation) Bandwidth {
	if !o.Stores() && c.CopyBandwidth > 0 {
		return Bandwidth{c.CopyBandwidth, Copying, c.BandwidthOrigin}
	}
	return Bandwidth{c.ReadBandwidth, Reading, c.BandwidthOrigin}
}

// Roof is what MFU of a subject is relative to: the peak of its data type, or the operations that
// the memory's bandwidth allows where nothing stays in memory: of softmax that is always less. ok is
// false when neither is known.
func (c Ceilings) Roof(s Subject) (p Peak, ok bool) {
	b := c.Bandwidth(s.Operation)
	if s.Operation.Stores() || b.Rate <= 0 {
		return c.Peak(s.DType)
	}
	m := max(1, s.Queries) // with a mask, a whole sequence
	return Peak{DType: s.DType, FLOPS: s.FLOPs(m) / s.Bytes(m) * b.Rate, Origin: cmp.Or(b.Origin, Measured), Memory: b}, true
}

// Distribution is how a buffer is filled.
type Distribution string

// The distributions of operands.
const (
	// Normal is N(0,1); int8 gets round(N(0,1)·32) clamped to ±127.
	Normal Distribution = "normal"
	// Integers are small whole numbers in [-4,4], on which every type is exact
	// up to the output's rounding.
	Integers Distribution = "integers"
	// Zeros flatter power-limited devices; they are a choice, never a default.
	Zeros Distribution = "zeros"
)

// Buffer is memory on a device.
type Buffer interface {
	Bytes() int64
	// Fill writes n elements of type d from the distribution; the same seed
	// gives the same content on every device.
	Fill(dist Distribution, d DType, n int64, seed uint64) error
	// Upload and Download copy from and to host memory, starting at byte off.
	Upload(off int64, src []byte) error
	Download(off int64, dst []byte) error
	Close() error
}

// Span is what the device itself says of one block of launches.
type Span struct {
	// Seconds is the time from the first launch's start to the last one's end,
	// between stamps taken on the device.
	Seconds float64
	// ClockMHz is the core's (SM's) clock during the block, 0 when unknown.
	ClockMHz float64
	// Ahead is how many launches ran for the first time ahead of the block, which Seconds
	// does not hold.
	Ahead       int
	Disturbance Disturbance
	// Lost is how long the block stood still, because threads were kept off their CPUs, the
	// process was stopped or the machine slept; 0 when that is not known.
	Lost time.Duration
}

// Telemetry is the state of a device at one moment. Zero means unknown.
type Telemetry struct {
	PowerW   float64
	TempC    float64
	Throttle Throttle
}

// PowerLimit is the setting of a device that is its power limit.
const PowerLimit = "power limit"

// Device runs kernels. The methods of one device are called by one goroutine at
// a time; different devices are independent.
type Device interface {
	Spec() Spec
	// Ceilings measures peaks and bandwidths at the first call (about a second)
	// and returns them again after that.
	Ceilings(ctx context.Context) (Ceilings, error)
	// Gemms lists what can run here, our kernels first.
	Gemms() []Gemm
	// Missing lists the kernels and libraries that can't, with reasons.
	Missing() []Missing
	// Alloc returns memory aligned for every kernel of the device.
	Alloc(bytes int64) (Buffer, error)
	// Execute runs launches[i % len(launches)] for i in [0,n) back to back,
	// with nothing between them, and returns the device's own account of it.
	// An error means that the block did not complete. ctx is looked at before the
	// block, and between two launches where the device can: who wants the block whole
	// gives one that does not end.
	Execute(ctx context.Context, launches []Launch, n int) (Span, error)
	Telemetry() Telemetry
	Close() error
}
