package rules

// Cause is why a row is slow.
type Cause string

// The causes. See [Cause.Meaning].
const (
	WaveQuantisation Cause = "wave-quantisation"
	TileQuantisation Cause = "tile-quantisation"
	HeuristicChoice  Cause = "heuristic-choice"
	Alignment        Cause = "alignment"
	MemoryBound      Cause = "memory-bound"
	// Implementation: another library's kernel computes the same product faster, the same
	// kernel computes a larger one faster, or the rate is far below what arithmetic and
	// memory allow.
	Implementation Cause = "implementation"
	Clock          Cause = "clock"
	// HostBound is a cause of rows that are no findings.
	HostBound        Cause = "host-bound"
	MeasurementError Cause = "measurement-error"
	Unknown          Cause = "unknown"
)

// causeTable is what people read about each cause, in the order in which reports explain them.
// Another cause is a file with the look that finds it, a name above, and entries here and in [looks].
var causeTable = []struct {
	name Cause
	// meaning says why a row is slow, as half a sentence.
	meaning string
}{
	{HeuristicChoice, "the library, or the kernel's own selector, had a faster way at hand and chose another"},
	{WaveQuantisation, "the last wave of tiles leaves units idle"},
	{TileQuantisation, "the last tile along M computes rows that are not there"},
	{Alignment, "only Ms that are no multiple of a vector are slow"},
	{MemoryBound, "the row reads its operands about as fast as memory gives them"},
	{Implementation, "the kernel's code is at fault, neither the product nor the machine"},
	{Clock, "slow in time, not at the common clock"},
	{HostBound, "the host takes as long to launch any product: the kernel's time does not show"},
	{MeasurementError, "faster than the device can be"},
	{Unknown, "nothing in the run says why"},
}

// look is one place to seek the cause of a candidate: found is the cause, or empty when it
// is not there. why says so with numbers, either way.
type look struct {
	cause Cause
	at    func(*witness) (found Cause, why string)
}

// looks are tried from the most certain: what proves that a faster choice of kernel was at hand,
// the limits of the machine, what the kernel does elsewhere, tiles and waves that are known, then what
// neighbouring rows tell, steps in the times alone, and several of these together.
var looks = []look{
	{HeuristicChoice, (*witness).choice},
	{MemoryBound, (*witness).memory},
	{Alignment, (*witness).alignment},
	{Implementation, (*witness).offLine},
	{HeuristicChoice, (*witness).larger},
	{HeuristicChoice, (*witness).kept},
	{HeuristicChoice, (*witness).otherLine},
	{WaveQuantisation, (*witness).waveCliff},
	{TileQuantisation, (*witness).tileCliff},
	{HeuristicChoice, (*witness).neighbours},
	{TileQuantisation, (*witness).steps},
	{WaveQuantisation, (*witness).fullWaves},
	{Implementation, (*witness).sameKernel},
	{HeuristicChoice, (*witness).together},
}

// choices are the looks for a faster choice of the same library.
var choices = []look{
	{HeuristicChoice, (*witness).choice},
	{HeuristicChoice, (*witness).larger},
	{HeuristicChoice, (*witness).kept},
	{HeuristicChoice, (*witness).otherLine},
	{HeuristicChoice, (*witness).neighbours},
}

// AllCauses lists the causes in the order in which reports explain them.
func AllCauses() []Cause {
	names := make([]Cause, len(causeTable))
	for i, c := range causeTable {
		names[i] = c.name
	}
	return names
}

// Meaning says why a row is slow, as half a sentence; empty for an unknown cause.
func (c Cause) Meaning() string {
	for _, entry := range causeTable {
		if entry.name == c {
			return entry.meaning
		}
	}
	return ""
}

// Exclusion is a cause that was looked at and is none.
type Exclusion struct {
	Cause Cause `json:"cause"`
	// Why says with numbers what speaks against it.
	Why string `json:"why"`
}
