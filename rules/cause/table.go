package cause

import "strings"

// Kind is why a row is slow.
type Kind string

// The causes. See [Kind.Meaning].
const (
	WaveQuantization Kind = "wave-quantization"
	TileQuantization Kind = "tile-quantization"
	HeuristicChoice  Kind = "heuristic-choice"
	Alignment        Kind = "alignment"
	MemoryBound      Kind = "memory-bound"
	// Implementation: another library's kernel computes the same product faster, the same kernel computes a
	// larger one faster, or the rate is far below the roofline.
	Implementation Kind = "implementation"
	Clock          Kind = "clock"
	// HostBound is also the cause of rows that are not findings: see [infer.HostFloor].
	HostBound        Kind = "host-bound"
	MeasurementError Kind = "measurement-error"
	Unknown          Kind = "unknown"
)

// causeTable holds the meaning of each cause, in the order of reports. To add a cause, write a file with the look that
// finds it, a name above, and entries here and in [Looks].
var causeTable = []struct {
	name Kind
	// meaning is a phrase without a period.
	meaning string
}{
	{HeuristicChoice, "the library or kernel selected a slow variant although a faster one was available"},
	{WaveQuantization, "the last wave of tiles leaves units idle"},
	{TileQuantization, "the last tile along M computes rows that do not exist"},
	{Alignment, "a modulus of the size separates fast from slow: only multiples of 8, 16 or 64 are fast"},
	{MemoryBound, "the kernel already reads its operands at nearly full memory bandwidth"},
	{Implementation, "the kernel's code is slow; product and machine allow more"},
	{Clock, "the device ran at a lower clock; at the common clock the size is not slow"},
	{HostBound, "launching takes longer than the kernel, and hides its time"},
	{MeasurementError, "the measured rate exceeds what the device can reach"},
	{Unknown, "the run does not show the cause"},
}

// look checks a candidate for one cause. found is empty if the cause does not apply; why gives the numbers
// either way.
type look struct {
	cause Kind
	at    func(*Witness) (found Kind, why string)
}

// Looks are tried from the most certain to the least: proof of a faster kernel choice, the machine's limits,
// the kernel's behavior elsewhere, known tiles and waves, neighboring rows, steps in the times alone, and
// several of these together.
var Looks = []look{
	{HeuristicChoice, (*Witness).choice},
	{MemoryBound, (*Witness).memory},
	{Alignment, (*Witness).alignment},
	{Implementation, (*Witness).offLine},
	{HeuristicChoice, (*Witness).larger},
	{HeuristicChoice, (*Witness).kept},
	{HeuristicChoice, (*Witness).otherLine},
	{WaveQuantization, (*Witness).waveCliff},
	{TileQuantization, (*Witness).tileCliff},
	{HeuristicChoice, (*Witness).neighbours},
	{TileQuantization, (*Witness).steps},
	{WaveQuantization, (*Witness).fullWaves},
	{Implementation, (*Witness).sameKernel},
	{HeuristicChoice, (*Witness).together},
}

var choices = []look{
	{HeuristicChoice, (*Witness).choice},
	{HeuristicChoice, (*Witness).larger},
	{HeuristicChoice, (*Witness).kept},
	{HeuristicChoice, (*Witness).otherLine},
	{HeuristicChoice, (*Witness).neighbours},
}

// All lists the causes in the order of reports.
func All() []Kind {
	names := make([]Kind, len(causeTable))
	for i, c := range causeTable {
		names[i] = c.name
	}
	return names
}

// UnmarshalText implements encoding.TextUnmarshaler. Runs up to November 2026 spell two causes in British
// English.
func (c *Kind) UnmarshalText(name []byte) error {
	*c = Kind(strings.ReplaceAll(string(name), "quantisation", "quantization"))
	return nil
}

// Meaning is a phrase that says why a row is slow; empty for an unknown cause.
func (c Kind) Meaning() string {
	for _, entry := range causeTable {
		if entry.name == c {
			return entry.meaning
		}
	}
	return ""
}

// Exclusion is a cause that was checked and does not apply.
type Exclusion struct {
	Cause Kind `json:"cause"`
	// Why gives the numbers that exclude it.
	Why string `json:"why"`
}
