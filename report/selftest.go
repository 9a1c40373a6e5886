package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Selftest is the outcome of the correctness gate and of the A/A measurement.
type Selftest struct {
	Checks []CheckStep `json:"checks"`
	// Noise is nil when the noise floor was not measured.
	Noise *Noise `json:"noise,omitempty"`
}

// CheckStep is one kernel with one data type, held against the reference.
type CheckStep struct {
	Device string        `json:"device"`
	Kernel string        `json:"kernel"`
	DType  kernels.DType `json:"dtype"`
	Passed bool          `json:"passed"`
	// Cases is how many products were compared.
	Cases int `json:"cases"`
	// WorstRatio is the largest |err| ÷ bound over all elements; above 1 fails.
	WorstRatio float64 `json:"worst_ratio"`
	// Subnormals is what the kernel makes of subnormal operands, where it was looked at: "kept", "zero" when
	// they count as zero, "mixed" when it depends on the product.
	Subnormals kernels.Subnormals `json:"subnormals,omitempty"`
	// RowBits is nil where it was not looked at.
	RowBits *RowBits `json:"row_bits,omitempty"`
	// Skipped is the reason when the kernel does not support the type.
	Skipped string `json:"skipped,omitempty"`
	// Failure names the first element out of bounds, or the error that kept the kernel
	// from being checked; Wrong says that it is the former.
	Failure string `json:"failure,omitempty"`
	Wrong   bool   `json:"wrong,omitempty"`
	// Known describes the fault where the library is known to fail this check, in its version and with the instruction
	// set that it runs.
	Known string `json:"known,omitempty"`
}

// RowBits says whether the bits of a row of C depend on how many rows there are and on how many
// threads compute them, at the numbers that were tried.
type RowBits struct {
	Ms        []int `json:"ms"`
	ByM       []int `json:"by_m"` // the Ms at which a row differs from the same one at the largest M
	Threads   []int `json:"threads,omitempty"`
	ByThreads []int `json:"by_threads,omitempty"` // with which a row differs from the same one on all threads
}

// text is "fixed", or what the bits depend on.
func (r *RowBits) text() any {
	switch {
	case r == nil:
		return nil
	case len(r.ByM) > 0 && len(r.ByThreads) > 0:
		return "by M and threads"
	case len(r.ByM) > 0:
		return "by M"
	case len(r.ByThreads) > 0:
		return "by threads"
	}
	return "fixed"
}

// Noise is the result of timing the same cases twice as if they were two.
type Noise struct {
	Cases  int `json:"cases"`
	Rounds int `json:"rounds"`
	// Spread is the median over cases of a sample's relative deviation.
	Spread float64 `json:"spread"`
	// FalseFlags of Comparisons were called different; Rate has bounds.
	Comparisons int            `json:"comparisons"`
	FalseFlags  int            `json:"false_flags"`
	Rate        rules.Interval `json:"rate"`
	// Level is the rate that is allowed.
	Level float64 `json:"level"`
}

// WriteSelftest prints the outcome of a self-test.
func WriteSelftest(w io.Writer, f Format, t *Selftest) error {
	doc := &Document{Subject: "selftest", Value: t, Items: []any{}}
	sheet := Sheet{Title: "Correctness", Columns: []Column{
		{Name: "device", Key: "device"}, {Name: "kernel", Key: "kernel"}, {Name: "dtype", Key: "dtype"}, {Name: "gate", Key: "gate"},
		{Name: "cases", Key: "cases", Align: Right}, {Name: "worst err ÷ bound", Key: "worst_ratio", Align: Right},
		{Name: "row bits", Key: "row_bits"}, {Name: "subnormals", Key: "subnormals"}, {Name: "why", Key: "why", Flex: true},
	}}
	passed, failed, known, skipped := 0, 0, 0, 0
	for _, c := range t.Checks {
		doc.Items = append(doc.Items, c)
		state, why := word{"passed", Good}, ""
		var ratio any = number{c.WorstRatio, 4}
		switch {
		case c.Skipped != "":
			skipped++
			state, why, ratio = word{"skipped", Faint}, c.Skipped, nil
		case !c.Passed:
			failed++
			state, why = word{"FAILED", Bad}, c.Failure
			if c.Known != "" {
				known++
				why = "known fault of the library: " + c.Known + "; " + c.Failure
			}
		default:
			passed++
		}
		sheet.Rows = append(sheet.Rows, []any{c.Device, c.Kernel, c.DType, state, unlessZero(c.Cases), ratio, c.RowBits.text(), string(c.Subnormals), why})
	}
	doc.Sheets = []Sheet{sheet}
	tone := Good
	if failed > 0 {
		tone = Bad
	}
	ofThem := ""
	if known > 0 {
		ofThem = fmt.Sprintf(" (%d by a known fault of a library)", known)
	}
	doc.Notes = []Note{{fmt.Sprintf("correctness: %d passed, %d failed%s, %d not supported here", passed, failed, ofThem, skipped), tone}}
	if n := t.Noise; n != nil {
		tone := Good
		if n.Rate.Lo > n.Level {
			tone = Bad
		} else if n.Rate.Hi > n.Level {
			tone = Open
		}
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("noise floor: %s between samples of one case (%s, %s)",
			formatShare(n.Spread), count(n.Cases, "case"), count(n.Rounds, "round")), Neutral},
			Note{fmt.Sprintf("A/A: %d of %d called different, %s; allowed %s", n.FalseFlags, n.Comparisons,
				bounds{n.Rate, shareCell}.Text(), formatShare(n.Level)), tone})
	}
	return doc.Render(w, f)
}
