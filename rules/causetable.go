package rules

import "strings"

// Cause is why a row is slow.
type Cause string

// The causes. See [Cause.Meaning].
const (
	WaveQuantization Cause = "wave-quantization"
	TileQuantization Cause = "tile-quantization"
	HeuristicChoice  Cause = "heuristic-choice"
	Alignment        Cause = "alignment"
	MemoryBound      Cause = "memory-bound"
	// Implementation: another library's kernel computes the same product faster, the same kernel computes a
	// larger one faster, or the rate is far below the roofline.
	Implementation Cause = "implementation"
	Clock          Cause = "clock"
	// HostBound is a cause of rows that are not findings.
	HostBound        Cause = "host-bound"
	MeasurementError Cause = "measurement-error"
	Unknown          Cause = "unknown"
)

// causeTable holds the meaning of each cause, in the order of reports. To add a cause, write a file with the look that
// finds it, a name above, and entries here and in [looks].
var causeTable = []struct {
	name Cause
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
	cause Cause
	at    func(*witness) (found Cause, why string)
}

// looks are tried from the most certain to the least: proof of a faster kernel choice, the machine's limits,
// the kernel's behavior elsewhere, known tiles and waves, neighboring rows, steps in the times alone, and
// several of these together.
var looks = []look{
	{HeuristicChoice, (*witness).choice},
	{MemoryBound, (*witness).memory},
	{Alignment, (*witness).alignment},
	{Implementation, (*witness).offLine},
	{HeuristicChoice, (*witness).larger},
	{HeuristicChoice, (*witness).kept},
	{HeuristicChoice, (*witness).otherLine},
	{WaveQuantization, (*witness).waveCliff},
	{TileQuantization, (*witness).tileCliff},
	{HeuristicChoice, (*witness).neighbours},
	{TileQuantization, (*witness).steps},
	{WaveQuantization, (*witness).fullWaves},
	{Implementation, (*witness).sameKernel},
	{HeuristicChoice, (*witness).together},
}

var choices = []look{
	{HeuristicChoice, (*witness).choice},
	{HeuristicChoice, (*witness).larger},
	{HeuristicChoice, (*witness).kept},
	{HeuristicChoice, (*witness).otherLine},
	{HeuristicChoice, (*witness).neighbours},
}

// AllCauses lists the causes in the order of reports.
func AllCauses() []Cause {
	names := make([]Cause, len(causeTable))
	for i, c := range causeTable {
		names[i] = c.name
	}
	return names
}

// UnmarshalText implements encoding.TextUnmarshaler. Runs up to November 2026 spell two causes in British
// English.
func (c *Cause) UnmarshalText(name []byte) error {
	*c = Cause(strings.ReplaceAll(string(name), "quantisation", "quantization"))
	return nil
}

// Meaning is a phrase that says why a row is slow; empty for an unknown cause.
func (c Cause) Meaning() string {
	for _, entry := range causeTable {
		if entry.name == c {
			return entry.meaning
		}
	}
	return ""
}

// Exclusion is a cause that was checked and does not apply.
type Exclusion struct {
	Cause Cause `json:"cause"`
	// Why gives the numbers that exclude it.
	Why string `json:"why"`
}
