package kernels

import (
	"cmp"
	"context"
	"time"
)

// PeakOrigin is the source of a peak rate; it is stored with every MFU.
type PeakOrigin string

// The origins of a peak.
const (
	Given     PeakOrigin = "given"      // by the user, with imported data
	DataSheet PeakOrigin = "data-sheet" // the vendor's figure at the vendor's clock
	Computed  PeakOrigin = "computed"   // units × width × clock
	Measured  PeakOrigin = "measured"   // from registers, on this device
	Published PeakOrigin = "published"  // from an imported file's own utilization figures
	Relative  PeakOrigin = "relative"   // unknown: relative to the series' fastest row
)

// Peak is the rate that MFU is relative to.
type Peak struct {
	DType  DType      `json:"dtype"`
	FLOPS  float64    `json:"flops"` // operations per second, whole device
	Origin PeakOrigin `json:"origin"`
	// ClockMHz is the clock of FLOPS, 0 if unknown.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// Unit names the counted units: "AMX", "AVX-512 FMA", "tensor core".
	Unit string `json:"unit,omitempty"`
	// Memory is the bandwidth that FLOPS is derived from, if the operation is memory-bound.
	Memory Bandwidth `json:"memory,omitzero"`
}

// Transfer is the kind of memory transfer that a bandwidth was measured with.
type Transfer string

const (
	Reading Transfer = "read"
	Copying Transfer = "copy" // counts both reads and writes
)

// Bandwidth is a memory bandwidth.
type Bandwidth struct {
	Rate float64  `json:"rate"` // bytes per second, 0 if unknown
	Of   Transfer `json:"of"`
	// Origin is [DataSheet] for the vendor's figure, empty if measured.
	Origin PeakOrigin `json:"origin,omitempty"`
}

// At scales the peak to a clock in MHz held throughout. It returns 0 if either clock is unknown.
func (p Peak) At(clockMHz float64) float64 {
	if p.ClockMHz <= 0 || clockMHz <= 0 {
		return 0
	}
	return p.FLOPS * clockMHz / p.ClockMHz
}

type Cache struct {
	Level int   `json:"level"`
	Bytes int64 `json:"bytes"` // of one instance
	Count int   `json:"count"` // instances across the device's cores
}

// Specs returns the specs of devices, in order.
func Specs(devices []Device) []Spec {
	out := make([]Spec, len(devices))
	for i, d := range devices {
		out[i] = d.Spec()
	}
	return out
}

// Spec describes a device. It is read once and does not change.
type Spec struct {
	ID   string `json:"id"`   // "cpu", "cuda:0"
	Kind Kind   `json:"kind"` // see [Kind.Facts]
	Name string `json:"name"` // "INTEL(R) XEON(R) PLATINUM 8592+"
	// UUID identifies a card among others of its kind; may be empty.
	UUID        string   `json:"uuid,omitempty"`
	Units       int      `json:"units"`
	MemoryBytes int64    `json:"memory_bytes"`
	Caches      []Cache  `json:"caches,omitempty"`
	Features    []string `json:"features,omitempty"` // "avx512_bf16", "sm_90a"
	// LastLevelCacheBytes is the size that weights must exceed, in rotation, to come from memory.
	LastLevelCacheBytes int64 `json:"llc_bytes"`
	// Versions of components: "driver", "openblas", "onednn", "microcode".
	Versions map[string]string `json:"versions,omitempty"`
	// Settings are changeable settings that affect times: "power limit", "ecc", "mig", "max sm clock".
	Settings map[string]string `json:"settings,omitempty"`
	// Faults are known faults of the device's libraries.
	Faults []KnownFault `json:"faults,omitempty"`
}

// RotationFactor is the ratio of the rotated operands' size to the last-level cache. At 3, each launch reads
// its operands from memory.
const RotationFactor = 3

// Ceilings are a device's measured or specified peak rates.
type Ceilings struct {
	Peaks []Peak `json:"peaks"`
	// ReadBandwidth and CopyBandwidth are in bytes per second; copy counts reads and writes.
	ReadBandwidth float64 `json:"read_bandwidth"`
	CopyBandwidth float64 `json:"copy_bandwidth"`
	// BandwidthOrigin is [DataSheet] for the vendor's figures, empty if measured.
	BandwidthOrigin PeakOrigin `json:"bandwidth_origin,omitempty"`
	// LinkBandwidth is the measured rate of uploads from pageable host memory, in bytes per second; 0 if
	// there is no link or it was not measured.
	LinkBandwidth float64 `json:"link_bandwidth,omitempty"`
}

// Peak returns the peak for d from the best available origin: given, measured, computed, data sheet, or
// published. ok is false if none is known.
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

// Bandwidth returns the bandwidth that bounds an operation: read, or copy if no operand stays in memory
// between launches. Without a copy bandwidth it returns the read bandwidth.
func (c Ceilings) Bandwidth(o Operation) Bandwidth {
	if !o.Stores() && c.CopyBandwidth > 0 {
		return Bandwidth{c.CopyBandwidth, Copying, c.BandwidthOrigin}
	}
	return Bandwidth{c.ReadBandwidth, Reading, c.BandwidthOrigin}
}

// Roof returns the rate that MFU of a subject is relative to: the data type's peak, or for operations that memory
// limits at every size, the operations that its bandwidth allows. ok is false if neither is known.
func (c Ceilings) Roof(s Subject) (p Peak, ok bool) {
	b := c.Bandwidth(s.Operation)
	if !s.Operation.LimitedByMemory() || b.Rate <= 0 {
		return c.Peak(s.DType)
	}
	m := max(1, s.Queries) // with a mask, a whole sequence
	return Peak{DType: s.DType, FLOPS: s.FLOPs(m) / s.Bytes(m) * b.Rate, Origin: cmp.Or(b.Origin, Measured), Memory: b}, true
}

// Distribution is the distribution of a buffer's values.
type Distribution string

// The distributions of operands.
const (
	// Normal is N(0,1); int8 gets round(N(0,1)·32) clamped to ±127.
	Normal Distribution = "normal"
	// Integers are whole numbers in [-4,4]: every type is exact up to the output's rounding.
	Integers Distribution = "integers"
	// Zeros overstate the speed of power-limited devices; never a default.
	Zeros Distribution = "zeros"
)

// Buffer is memory on a device.
type Buffer interface {
	Bytes() int64
	// Fill writes n elements of type d. The same seed gives the same content on every device.
	Fill(dist Distribution, d DType, n int64, seed uint64) error
	// Upload and Download copy from and to host memory, starting at byte off.
	Upload(off int64, src []byte) error
	Download(off int64, dst []byte) error
	Close() error
}

// Span is the device's timing of one block of launches.
type Span struct {
	// Seconds is the time from the first launch's start to the last one's end, by timestamps from the device.
	Seconds float64
	// ClockMHz is the core (SM) clock during the block, 0 if unknown.
	ClockMHz float64
	// Ahead is the number of first runs before the block; Seconds excludes them.
	Ahead       int
	Disturbance Disturbance
	// Host is how long the host took to start one launch; 0 if a graph started the launches, or unknown.
	Host time.Duration
	// Lost is how long the block was stopped: threads were descheduled, the process was stopped, or the
	// machine slept. 0 if unknown.
	Lost time.Duration
}

// Telemetry is the state of a device at one moment. Zero means unknown.
type Telemetry struct {
	PowerW   float64
	TempC    float64
	Throttle Throttle
}

// PowerLimit is the name of the power limit in [Spec].Settings.
const PowerLimit = "power limit"

// Device runs kernels. One goroutine at a time may call a device's methods; different devices are
// independent.
type Device interface {
	Spec() Spec
	// Ceilings measures peaks and bandwidths at the first call (about a second) and caches them.
	Ceilings(ctx context.Context) (Ceilings, error)
	// Kernels lists the available kernels of an operation, ours first.
	Kernels(o Operation) []Kernel
	// Missing lists unavailable kernels and libraries, with reasons.
	Missing() []Missing
	// Alloc returns memory aligned for every kernel of the device.
	Alloc(bytes int64) (Buffer, error)
	// Execute runs launches[i % len(launches)] for i in [0,n) back to back and returns the device's timing.
	// An error means that the block did not complete. ctx is checked before the block and, if the device can,
	// between launches. For an uninterrupted block pass a context that does not end.
	Execute(ctx context.Context, launches []Launch, n int) (Span, error)
	Telemetry() Telemetry
	Close() error
}
