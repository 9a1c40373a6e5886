package results

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Regime says from where operands come when a launch begins.
type Regime string

// The regimes. Engine is the default: it is how an inference engine meets a GEMM.
const (
	Engine Regime = "engine" // weights from memory, activations may sit in cache
	Cold   Regime = "cold"   // every operand from memory
	Hot    Regime = "hot"    // every operand may sit in cache
)

// SeriesKey is everything that is equal along a curve over M. Two rows may be
// compared by the rules only within a series, or between series by rules that
// say so (parity, alternative).
type SeriesKey struct {
	Device string `json:"device"` // "cpu", "cuda:0"; the name for imported data
	Kernel string `json:"kernel"`
	// Subject is what is computed: the operation, its dimensions, its operands.
	kernels.Subject
	Regime  Regime `json:"regime"`
	Threads int    `json:"threads,omitempty"` // CPU only
	// PackInside marks series whose launches pack B inside the timing.
	PackInside bool `json:"pack_inside,omitempty"`
}

// String prints a series as "cpu/amx/bf16/n14336 k4096"; an operation that is no matrix
// product stands before the data type, and what is not plain follows.
func (k SeriesKey) String() string {
	return k.text("/")
}

// text puts between between the data type and the dimensions.
func (k SeriesKey) text(between string) string {
	return k.prefix() + between + k.Size() + k.suffix()
}

// prefix is what stands before the dimensions.
func (k SeriesKey) prefix() string {
	s := k.Device + "/" + k.Kernel + "/"
	if k.Operation != kernels.GEMM {
		s += k.Operation.String() + "/"
	}
	return s + string(k.DType)
}

// suffix is what is not plain about a series, each word with a space before it.
func (k SeriesKey) suffix() string {
	s := k.Traits()
	if k.Regime != "" && k.Regime != Engine {
		s += " " + string(k.Regime)
	}
	if k.PackInside {
		s += " pack-inside"
	}
	return s
}

// Text prints a series as tables and reports show it, "cpu/amx/bf16 n14336 k4096";
// what is not plain follows. [SeriesKey.String] is the same with a slash before n.
func (k SeriesKey) Text() string { return k.text(" ") }

// TextOfAny prints a series whatever its device, "amx/bf16 n14336 k4096".
func (k SeriesKey) TextOfAny() string {
	k.Device = ""
	return k.Text()[1:]
}

// Case is one thing that is timed: a product, or a product executed in parts.
type Case struct {
	ID int64 `json:"id"`
	SeriesKey
	M int `json:"m"`
	// Parts are the Ms of the launches that make up the product, in order, when
	// it is executed as a split; empty for a single launch.
	Parts []int `json:"parts,omitempty"`
	// PadTo is the M that is computed when the product is padded, else 0.
	PadTo int `json:"pad_to,omitempty"`
	// Copied says that a padded product's rows are copied into a place with room for PadTo rows
	// first, as an engine does that has none behind them. The output has room: whoever launches
	// allocates it, and its first M rows are the result.
	Copied bool `json:"copied,omitempty"`
	// Label is the library's kernel or algorithm, where it is known.
	Label string `json:"label,omitempty"`
	// Launch is how the kernel was launched, as far as it is known. Like the label it
	// is no part of the identity.
	Launch Launch `json:"launch,omitzero"`
}

// Launch is what a kernel does with a product. What is not known is zero.
type Launch = kernels.Tiling

// readLabel moves what the label says of the launch to where nothing is known of it: all
// that runs, tables and CSVs have of other programs' kernels is their names.
func (c *Case) readLabel() {
	if c.Label != "" {
		var told Launch
		c.Label, told = kernels.ReadLabel(c.Label)
		c.Launch = c.Launch.Or(told)
	}
}

// bindLaunch lists the columns of a launch; what is not known is null.
func bindLaunch(l Launch) []any {
	count := func(n int) any {
		if n == 0 {
			return nil
		}
		return n
	}
	var waves, orientation any
	if l.Waves > 0 {
		waves = l.Waves
	}
	if l.Orientation != "" {
		orientation = l.Orientation
	}
	return []any{count(l.Tile[0]), count(l.Tile[1]), count(l.Tile[2]), waves, count(l.Split), orientation}
}

// CaseKey is the identity of a case: every field but ID, Label and Launch. Cases of equal
// keys are the same thing to run.
type CaseKey struct {
	SeriesKey
	m, padTo int
	parts    string // as they are stored
}

// Key is the identity of the case.
func (c Case) Key() CaseKey {
	return CaseKey{SeriesKey: c.SeriesKey, m: c.M, padTo: c.PadTo, parts: c.storedParts()}
}

// copiedParts stands in the place of parts where a padded product's rows are copied first.
const copiedParts = "copied"

// storedParts is how a case is executed, as files have it: "192+1988", "copied", empty for a
// single launch.
func (c Case) storedParts() string {
	switch {
	case len(c.Parts) > 0:
		return JoinInts(c.Parts, "+")
	case c.Copied:
		return copiedParts
	}
	return ""
}

// readParts is the reverse of storedParts.
func (c *Case) readParts(s string) (err error) {
	if c.Copied = s == copiedParts; c.Copied {
		c.Parts = nil
		return nil
	}
	c.Parts, err = splitParts(s)
	return err
}

// FLOPs is the number of operations that the case asks for, whatever is executed for it.
func (c Case) FLOPs() float64 { return c.Subject.FLOPs(c.M) }

// Bytes is the least traffic of what the case asks for, whatever is executed for it.
func (c Case) Bytes() float64 { return c.Subject.Bytes(c.M) }

// String prints a case as "cpu/amx/bf16/m4096 n14336 k4096", followed by
// "= 192+3904" for a split and "→ 4224" for padding, "→ 4224 copied" where rows are copied first.
func (c Case) String() string {
	s := fmt.Sprintf("%s/m%d %s%s", c.prefix(), c.M, c.Size(), c.Traits())
	switch {
	case len(c.Parts) > 0:
		s += " = " + JoinInts(c.Parts, "+")
	case c.PadTo > 0:
		s += " → " + strconv.Itoa(c.PadTo)
	}
	if c.Copied {
		s += " " + copiedParts
	}
	return s
}

// JoinInts prints numbers with a separator between them.
func JoinInts(v []int, sep string) string {
	words := make([]string, len(v))
	for i, n := range v {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, sep)
}

// Phase says for what a sample was taken.
type Phase string

// The phases. Rules judge on Sweep and Confirm samples and never mix them.
const (
	PhaseSweep    Phase = "sweep"
	PhaseSentinel Phase = "sentinel"
	PhaseConfirm  Phase = "confirm" // a suspect or its reference, measured again
	PhaseRemedy   Phase = "remedy"  // a split, padding or alternative, or its direct twin
	PhaseNoise    Phase = "noise"   // A/A
	// PhaseSustained is a case that runs by itself for half a second and more, in the
	// thermal state that it brings about.
	PhaseSustained Phase = "sustained"
)

// Sample is one block: Launches back-to-back launches of one case.
type Sample struct {
	CaseID int64 `json:"case"`
	Phase  Phase `json:"phase"`
	// Round counts from 0 within the phase; a case has one sample a round.
	Round int `json:"round"`
	// Seq is the order in which blocks ran over the whole life of the run.
	Seq int64 `json:"seq"`
	// StartedUnixMicro is the wall clock at the block's start.
	StartedUnixMicro int64 `json:"started_us"`
	Launches         int   `json:"launches"`
	// US is the time of one launch in microseconds: the block's time ÷ Launches.
	US float64 `json:"us"`
	// ClockMHz, PowerW and TempC are 0 where the device doesn't tell.
	ClockMHz float64          `json:"clock_mhz,omitempty"`
	PowerW   float64          `json:"power_w,omitempty"`
	TempC    float64          `json:"temp_c,omitempty"`
	Throttle kernels.Throttle `json:"throttle,omitempty"`
	// Disturbance is the text of a [kernels.Disturbance]: samples come in millions, and few have one.
	Disturbance string `json:"disturbance,omitempty"`
	// Allocation is how many times the buffers had been allocated anew when the block ran.
	Allocation int `json:"allocation,omitempty"`
	// EnergyMJ is the energy of one launch in millijoules, 0 where it is not known.
	EnergyMJ float64 `json:"energy_mj,omitempty"`
	// Utils is the MFU that was published with the time, 0 where none was.
	Utils float64 `json:"utils,omitempty"`
}

// Failure is a case that could not be measured, with the reason. It takes the
// place of the sample, so that a resumed run does not try it again.
type Failure struct {
	CaseID int64  `json:"case"`
	Phase  Phase  `json:"phase"`
	Round  int    `json:"round"`
	Reason string `json:"reason"`
}

// Series is one curve over M, ascending, as the rules read it.
type Series struct {
	Key  SeriesKey
	Rows []Row
	// Peak is what MFU is relative to. FLOPS is 0 when no peak is known: then
	// MFU is relative to the fastest row, and Origin says so.
	Peak kernels.Peak
	// Bandwidth is the one of memory that the operation is held against.
	Bandwidth kernels.Bandwidth
}

// Row is one M of a series with its samples, in order of Seq.
type Row struct {
	Case    Case
	Samples []Sample
	Failed  string // the reason when the case failed, else empty
}
