package query

import (
	"fmt"
	"slices"
	"strings"
)

// Set is one or more kinds of records.
type Set uint

// The kinds of records.
const (
	Findings Set = 1 << iota // of audit and report
	Remedies                 // of splits and report
	Changes                  // cases and findings that diff compares
	Rows                     // medians that report prints
	Samples                  // lines that export writes

	everywhere = Findings | Remedies | Changes | Rows | Samples
)

// kinds are the words for single kinds, in the order of their bits.
var kinds = []string{"findings", "remedies", "changes", "rows", "samples"}

// String lists the kinds of a set: "findings, remedies".
func (s Set) String() string {
	var words []string
	for i, k := range kinds {
		if s&(1<<i) != 0 {
			words = append(words, k)
		}
	}
	return strings.Join(words, ", ")
}

// Type is what a name stands for.
type Type string

// The types of names. What a record does not have is "", 0, NaN and false.
const (
	Text   Type = "text"
	Count  Type = "count"  // a whole number
	Number Type = "number" // with a fraction
	Flag   Type = "flag"   // true or false
)

// Name is a name in expressions.
type Name struct {
	Name string
	Type Type
	// Unit is that of the value, empty for texts, counts and flags without one.
	Unit    string
	Meaning string
	// Of are the kinds of records that have it.
	Of Set
}

// names are all of them, in the order in which they are shown.
var names = []Name{
	{"device", Text, "", "the device, as cpu or cuda:0", everywhere},
	{"kernel", Text, "", "the kernel, as cublas or tiled", everywhere},
	{"operation", Text, "", "what is computed, as gemm or softmax", everywhere},
	{"dtype", Text, "", "the data type of the activations", everywhere},
	{"weights", Text, "", "the format of quantised weights, empty for plain ones", everywhere &^ Samples},
	{"layout", Text, "", "how weights are stored: nk or kn", everywhere},
	{"regime", Text, "", "where operands come from: engine, cold, hot", everywhere},
	{"threads", Count, "", "threads of a CPU", everywhere},
	{"m", Count, "", "the M of a row; of a finding that of the row that loses most", everywhere},
	{"n", Count, "", "the N of a product", everywhere},
	{"k", Count, "", "the K of a product", everywhere},
	{"us", Number, "us", "time of a launch: of a row, of a finding's worst row and of what is compared at the common clock (diff: that of B), of a remedy that of the direct product", everywhere},
	{"mfu", Number, "share", "share of the peak that is reached, 0.5 for half; of samples as it was published, where it was", Findings | Rows | Samples},
	{"clock", Number, "MHz", "clock of the device", Findings | Rows | Samples},
	{"label", Text, "", "the library's kernel or algorithm, where it is known", Findings | Changes | Rows | Samples},
	{"rule", Text, "", "the rule that is broken", Findings | Changes},
	{"status", Text, "", "confirmed, unconfirmed or waived", Findings | Changes},
	{"cause", Text, "", "why it is slow", Findings | Changes},
	{"loss", Number, "share", "share of its time that the worst row loses, 0.1 for a tenth", Findings | Changes},
	{"stake", Number, "us", "time at stake: loss times time, over all rows; of a remedy the time that it saves", Findings | Remedies | Changes},
	{"from_m", Count, "", "first M of a finding", Findings | Changes},
	{"to_m", Count, "", "last M of a finding", Findings | Changes},
	{"rows", Count, "", "rows of a finding", Findings | Changes},
	{"p", Number, "", "adjusted p-value", Findings | Remedies | Changes},
	{"remedy", Text, "", "kind of the remedy: split, pad, kernel or algorithm", Findings | Remedies},
	{"gain", Number, "factor", "direct time over the remedy's, measured where it was executed, else predicted", Findings | Remedies},
	{"executed", Flag, "", "the remedy was executed", Findings | Remedies},
	{"pays", Flag, "", "the remedy was executed and pays", Findings | Remedies},
	{"change", Text, "", "of a case slower, faster, same, marginal or undecided; of a finding new, fixed, same or undecided", Changes},
	{"ratio", Number, "factor", "B's time over A's: above 1 is slower", Changes},
	{"verdict", Text, "", "anomalous, clean, marginal or undecided", Findings | Rows},
	{"samples", Count, "", "samples of a row", Findings | Rows},
	{"phase", Text, "", "what a sample was taken for, as sweep or confirm", Samples},
	{"round", Count, "", "round within the phase", Samples},
	{"launches", Count, "", "launches in the sample's block", Samples},
	{"power", Number, "W", "power of the device", Samples},
	{"temperature", Number, "°C", "temperature of the device", Samples},
	{"throttle", Text, "", "what held the device back, empty where nothing did", Samples},
	{"disturbance", Text, "", "what the system did to the block, empty where nothing", Samples},
}

// Names are the names that some record of a set has, in the order in which they are shown.
func Names(of Set) []Name {
	return slices.DeleteFunc(slices.Clone(names), func(n Name) bool { return n.Of&of == 0 })
}

// lookup finds a name of a set. The error lists the names that there are.
func lookup(name string, of Set) (Name, error) {
	i := slices.IndexFunc(names, func(n Name) bool { return n.Name == name })
	if i >= 0 && names[i].Of&of != 0 {
		return names[i], nil
	}
	var have []string
	for _, n := range Names(of) {
		have = append(have, n.Name)
	}
	list := strings.Join(have, ", ")
	if i >= 0 {
		return Name{}, fmt.Errorf("%s is a name of %s and not of %s; these have %s", name, names[i].Of, of, list)
	}
	return Name{}, fmt.Errorf("unknown name %q: expected one of %s", name, list)
}
