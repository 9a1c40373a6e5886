package results

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Regime is where operands are when a launch begins.
type Regime string

// The regimes. Engine is the default: the state in an inference engine.
const (
	Engine Regime = "engine" // weights in memory, activations possibly in cache
	Cold   Regime = "cold"   // every operand in memory
	Hot    Regime = "hot"    // every operand possibly in cache
)

// SeriesKey is everything that is constant along a curve over M. Rules compare rows only within a series,
// except the rules that compare series (parity, alternative).
type SeriesKey struct {
	Device string `json:"device"` // "cpu", "cuda:0"; the name for imported data
	Kernel string `json:"kernel"`
	// Subject is the operation, its dimensions and operands.
	kernels.Subject
	Regime  Regime `json:"regime"`
	Threads int    `json:"threads,omitempty"` // CPU only
	// PackInside marks series whose launches include packing B.
	PackInside bool `json:"pack_inside,omitempty"`
}

// String returns "cpu/amx/bf16/n14336 k4096". Operations other than the product precede the data type;
// non-default properties follow.
func (k SeriesKey) String() string {
	return k.text("/")
}

func (k SeriesKey) text(between string) string {
	return k.prefix() + between + k.Size() + k.suffix()
}

func (k SeriesKey) prefix() string {
	s := k.Device + "/" + k.Kernel + "/"
	if !k.Operation.IsDefault() {
		s += k.Operation.String() + "/"
	}
	return s + string(k.DType)
}

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

// Text returns the form for tables and reports, "cpu/amx/bf16 n14336 k4096". [SeriesKey.String] has a slash
// before n.
func (k SeriesKey) Text() string { return k.text(" ") }

// TextOfAny returns the series without its device, "amx/bf16 n14336 k4096".
func (k SeriesKey) TextOfAny() string {
	k.Device = ""
	return k.Text()[1:]
}

// Case is one timed thing: a product, or a product executed in parts.
type Case struct {
	ID int64 `json:"id"`
	SeriesKey
	// M is the coordinate of the case on a curve that runs along another dimension; see [Case.Real].
	M int `json:"m"`
	// Parts are the Ms of a split's launches in order; empty for a single launch.
	Parts []int `json:"parts,omitempty"`
	// PadTo is the computed M of a padded product, else 0.
	PadTo int `json:"pad_to,omitempty"`
	// Copied means that a padded product's rows are first copied to a place with room for PadTo rows, like an
	// engine without spare rows. The output needs no copy: the caller allocates the room, and the first M
	// rows are the result.
	Copied bool `json:"copied,omitempty"`
	// Label is the library's kernel or algorithm, if known.
	Label string `json:"label,omitempty"`
	// Launch is the kernel's tiling, if known. Like the label it is not part of the identity.
	Launch Launch `json:"launch,omitzero"`
}

// Launch is how a kernel divides a product. Unknown fields are zero.
type Launch = kernels.Tiling

// ReadLabel fills unknown launch fields from the label: imported data has only kernel names.
func (c *Case) ReadLabel() {
	if c.Label != "" {
		var told Launch
		c.Label, told = kernels.ReadLabel(c.Label)
		c.Launch = c.Launch.Or(told)
	}
}

// bindLaunch lists the columns of a launch; unknown ones are null.
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

// CaseKey identifies a case: every field but ID, Label and Launch. Cases with equal keys run the same thing.
type CaseKey struct {
	SeriesKey
	m, padTo int
	parts    string // as they are stored
}

// Key returns the identity of the case.
func (c Case) Key() CaseKey {
	return CaseKey{SeriesKey: c.SeriesKey, m: c.M, padTo: c.PadTo, parts: c.StoredParts()}
}

// copiedParts replaces the parts of a padded product with copied rows.
const copiedParts = "copied"

// StoredParts returns how a case is executed, as stored: "192+1988", "copied", empty for a single launch.
func (c Case) StoredParts() string {
	switch {
	case len(c.Parts) > 0:
		return JoinInts(c.Parts, "+")
	case c.Copied:
		return copiedParts
	}
	return ""
}

// ReadParts reverses StoredParts.
func (c *Case) ReadParts(s string) (err error) {
	if c.Copied = s == copiedParts; c.Copied {
		c.Parts = nil
		return nil
	}
	c.Parts, err = splitParts(s)
	return err
}

// FLOPs returns the operations that the case asks for, regardless of its execution.
func (c Case) FLOPs() float64 { return c.Subject.FLOPs(c.M) }

// Bytes returns the minimum traffic that the case asks for, regardless of its execution.
func (c Case) Bytes() float64 { return c.Subject.Bytes(c.M) }

// String returns "cpu/amx/bf16/m4096 n14336 k4096", with "= 192+3904" for a split and "→ 4224" or "→ 4224
// copied" for padding.
func (c Case) String() string {
	s := fmt.Sprintf("%s/%s %s%s", c.prefix(), c.Coordinate(c.M), c.Size(), c.Traits())
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

// JoinInts prints numbers with a separator.
func JoinInts(v []int, sep string) string {
	words := make([]string, len(v))
	for i, n := range v {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, sep)
}

// Phase is the purpose of a sample.
type Phase string

// The phases. Rules use Sweep and Confirm samples and never mix them.
const (
	PhaseSweep    Phase = "sweep"
	PhaseSentinel Phase = "sentinel"
	PhaseConfirm  Phase = "confirm" // a suspect or its reference, measured again
	PhaseRemedy   Phase = "remedy"  // a split, padding or alternative, or its direct twin
	PhaseNoise    Phase = "noise"   // A/A
	// PhaseSustained is a case run alone for at least half a second, in its own thermal state.
	PhaseSustained Phase = "sustained"
)

// Sample is one block: Launches back-to-back launches of one case.
type Sample struct {
	CaseID int64 `json:"case"`
	Phase  Phase `json:"phase"`
	// Round counts from 0 within the phase; a case has one sample per round.
	Round int `json:"round"`
	// Seq is the order of blocks over the whole run.
	Seq int64 `json:"seq"`
	// StartedUnixMicro is the wall clock time at the block's start.
	StartedUnixMicro int64 `json:"started_us"`
	Launches         int   `json:"launches"`
	// US is the time of one launch in microseconds: the block's time ÷ Launches.
	US float64 `json:"us"`
	// ClockMHz, PowerW and TempC are 0 if unknown.
	ClockMHz float64          `json:"clock_mhz,omitempty"`
	PowerW   float64          `json:"power_w,omitempty"`
	TempC    float64          `json:"temp_c,omitempty"`
	Throttle kernels.Throttle `json:"throttle,omitempty"`
	// Disturbance is the text of a [kernels.Disturbance], to save memory: few of millions of samples have
	// one.
	Disturbance string `json:"disturbance,omitempty"`
	// Allocation is how often the buffers had been reallocated before the block.
	Allocation int `json:"allocation,omitempty"`
	// EnergyMJ is the energy of one launch in millijoules, 0 if unknown.
	EnergyMJ float64 `json:"energy_mj,omitempty"`
	// HostUS is the host's time to start one launch in microseconds, if the launches were not in a graph; 0 if
	// they were, or if it is unknown.
	HostUS float64 `json:"host_us,omitempty"`
	// Utils is the published MFU, 0 if none.
	Utils float64 `json:"utils,omitempty"`
}

// Usable is false for a sample without a valid time. Disturbed samples are usable: dropping samples for being slow would
// flatter the result, and the estimators tolerate a minority of them.
func (s *Sample) Usable() bool { return s.US >= LeastUS && s.US <= MostUS }

// Failure is a case that could not be measured, with the reason. It replaces the sample, so a resumed run
// does not retry it.
type Failure struct {
	CaseID int64  `json:"case"`
	Phase  Phase  `json:"phase"`
	Round  int    `json:"round"`
	Reason string `json:"reason"`
}

// Series is one curve over M, ascending, as rules read it.
type Series struct {
	Key  SeriesKey
	Rows []Row
	// Peak is what MFU is relative to. If no peak is known, FLOPS is 0 and MFU is relative to the fastest
	// row, as Origin says.
	Peak kernels.Peak
	// Bandwidth is the memory bandwidth that bounds the operation.
	Bandwidth kernels.Bandwidth
}

// Row is one M of a series with its samples in order of Seq.
type Row struct {
	Case    Case
	Samples []Sample
	Failed  string // the reason of a failed case, else empty
}
