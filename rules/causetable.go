package rules

// causeTable is what people read about each cause, in the order in which reports explain them.
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
	{MeasurementError, "faster than the device can be"},
	{Unknown, "nothing in the run says why"},
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
