package report

import (
	"errors"
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Selftest is the outcome of the correctness gate and of the A/A measurement.
type Selftest struct {
	Checks []CheckStep `json:"checks"`
	// Noise is nil if the noise floor was not measured.
	Noise *Noise `json:"noise,omitempty"`
}

// CheckStep compares one kernel and data type with the reference.
type CheckStep struct {
	Device string        `json:"device"`
	Kernel string        `json:"kernel"`
	DType  kernels.DType `json:"dtype"`
	Passed bool          `json:"passed"`
	// Cases is the number of compared products.
	Cases int `json:"cases"`
	// WorstRatio is the largest |err| ÷ bound over all elements; above 1 fails.
	WorstRatio float64 `json:"worst_ratio"`
	// Subnormals is how the kernel treats subnormal operands, if tested: "kept", "zero" if it flushes them to
	// zero, "mixed" if it depends on the product.
	Subnormals kernels.Subnormals `json:"subnormals,omitempty"`
	// HalfSums is the 16-bit type that the bound let the kernel round partial sums to, if it did.
	HalfSums kernels.DType `json:"half_sums,omitempty"`
	// Rounded: the bound let the kernel round activations to 8 bits.
	Rounded bool `json:"rounded,omitempty"`
	// RowBits is nil if not tested.
	RowBits *RowBits `json:"row_bits,omitempty"`
	// Skipped is the reason if the kernel does not support the type.
	Skipped string `json:"skipped,omitempty"`
	// Failure names the first element out of bounds, or the error that prevented the check. Wrong
	// is set for an element out of bounds.
	Failure string `json:"failure,omitempty"`
	Wrong   bool   `json:"wrong,omitempty"`
	// Known describes the fault if the library, at its version and instruction set, is known to fail this
	// check.
	Known string `json:"known,omitempty"`
}

// NewCheckStep is the result of a kernel's check, which ended with err. failure is an error that prevented it.
func NewCheckStep(d kernels.Spec, kernel string, dtype kernels.DType, summary kernels.CheckSummary,
	err error) (check CheckStep, failure error) {
	check = CheckStep{Device: d.ID, Kernel: kernel, DType: dtype}
	check.Cases, check.WorstRatio, check.Subnormals = summary.Passed, summary.Margin, summary.Subnormals
	check.HalfSums, check.Rounded = summary.HalfSums, summary.Rounded
	if rows := summary.Rows; len(rows.Ms) > 0 {
		check.RowBits = &RowBits{Ms: rows.Ms, ByM: append([]int{}, rows.ByM...), Threads: rows.Threads, ByThreads: rows.ByThreads}
	}
	var wrong kernels.WrongResult
	switch {
	case errors.As(err, &wrong):
		check.Failure, check.Wrong = err.Error(), true
		fault, _ := d.FaultBehind(err)
		check.Known = fault.Text
	case err != nil:
		check.Failure = err.Error()
		return check, err
	case summary.Passed == 0:
		check.Skipped = "no test problem is supported"
		if len(summary.Skipped) > 0 {
			check.Skipped = skipReason(summary.Skipped[0])
		}
	default:
		check.Passed = true
	}
	return check, nil
}

// skipReason is the reason of a rejection without the kernel's name.
func skipReason(err error) string {
	var unsupported *kernels.Unsupported
	if errors.As(err, &unsupported) {
		return unsupported.Reason
	}
	return err.Error()
}

// RowBits reports whether the bits of a row of C depend on the number of rows or threads, for the tested
// numbers.
type RowBits struct {
	Ms        []int `json:"ms"`
	ByM       []int `json:"by_m"` // Ms where a row differs from the same row at the largest M
	Threads   []int `json:"threads,omitempty"`
	ByThreads []int `json:"by_threads,omitempty"` // thread counts where a row differs from the same row on all threads
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

// Noise is the result of an A/A comparison: the same cases timed twice.
type Noise struct {
	Cases  int `json:"cases"`
	Rounds int `json:"rounds"`
	// Spread is the median over cases of a sample's relative deviation.
	Spread float64 `json:"spread"`
	// FalseFlags of the Comparisons were called different; Rate has bounds.
	Comparisons int            `json:"comparisons"`
	FalseFlags  int            `json:"false_flags"`
	Rate        stats.Interval `json:"rate"`
	// Level is the allowed rate.
	Level float64 `json:"level"`
}

var checkStepFields = field.Of([]field.Field[CheckStep]{
	{Name: "device", Head: "device", Words: "the device, as cpu or cuda:0"},
	{Name: "kernel", Head: "kernel", Words: "the kernel, as cublas or tiled"},
	{Name: "dtype", Head: "dtype", Words: "the data type"},
	{Name: "gate", Head: "gate", JSON: "-", Words: "passed, FAILED or skipped", Value: func(c CheckStep) any { return c.gate() }},
	{Name: "cases", Head: "cases", Kind: field.Count, Words: "products that were compared",
		Value: func(c CheckStep) any { return unlessZero(c.Cases) }},
	{Name: "worst_ratio", Head: "worst err ÷ bound", Kind: field.Number, Words: "the largest error over its bound: above 1 fails",
		Value: func(c CheckStep) any { return when(c.Skipped == "", number{c.WorstRatio, 4}) }},
	{Name: "row_bits", Head: "row bits", JSON: "-", Words: "whether the bits of a row depend on M or threads",
		Value: func(c CheckStep) any { return c.RowBits.text() }},
	{Name: "subnormals", Head: "subnormals", Words: "what becomes of subnormal operands"},
	{Name: "why", Head: "why", JSON: "-", Flex: true, Words: "why it failed or was skipped, or what its bound allowed",
		Value: func(c CheckStep) any { return c.why() }},
})

func (c CheckStep) gate() word {
	switch {
	case c.Skipped != "":
		return word{"skipped", Faint}
	case c.Passed:
		return word{"passed", Good}
	}
	return word{"FAILED", Bad}
}

func (c CheckStep) why() string {
	switch {
	case c.Skipped != "":
		return c.Skipped
	case c.Passed && c.HalfSums != "":
		return fmt.Sprintf("partial sums may be rounded to %s", c.HalfSums)
	case c.Passed && c.Rounded:
		return "activations may be rounded to 8 bits"
	case c.Passed:
		return ""
	case c.Known != "":
		return "known fault of the library: " + c.Known + "; " + c.Failure
	}
	return c.Failure
}

// WriteSelftest prints the outcome of a self-test.
func WriteSelftest(w io.Writer, f Format, t *Selftest) error {
	doc := &Document{Subject: "selftest", Value: t, Items: items(t.Checks)}
	passed, failed, known, skipped := 0, 0, 0, 0
	for _, c := range t.Checks {
		switch {
		case c.Skipped != "":
			skipped++
		case c.Passed:
			passed++
		default:
			failed++
			if c.Known != "" {
				known++
			}
		}
	}
	doc.Sheets = []Sheet{sheetOf("Correctness", checkStepFields, t.Checks)}
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
		doc.Notes = append(doc.Notes, Notef(Neutral, "noise floor: %s between samples of one case (%s, %s)", FormatShare(n.Spread),
			Count(n.Cases, "case"), Count(n.Rounds, "round")),
			Notef(tone, "A/A: %d of %d called different, %s; allowed %s", n.FalseFlags, n.Comparisons, bounds{n.Rate, Share}.Text(),
				FormatShare(n.Level)))
	}
	return doc.Render(w, f)
}

// Evidence is the input of the exit code; broken holds what prevented checks. Failures to run give no result on a kernel; without any
// checked kernel there is no verdict.
func (test *Selftest) Evidence(broken []outcome.Ground) outcome.Evidence {
	wrong, known, checked := 0, 0, 0
	for _, check := range test.Checks {
		if check.Wrong {
			wrong++
		}
		if check.Known != "" {
			known++
		}
		if check.Passed || check.Failure != "" {
			checked++
		}
	}
	e := outcome.Evidence{Broken: broken}
	if wrong > 0 {
		text := Plural(wrong, "kernel", "kernels") + " failed the comparison with the reference"
		if known > 0 {
			text += fmt.Sprintf(", %d from a known library bug", known)
		}
		e.Proven = append(e.Proven, text)
	} else if n := test.Noise; n != nil && n.Rate.Lo > n.Level {
		e.Proven = append(e.Proven, fmt.Sprintf("%d of %d pairs of the same case were called different, more than the level of %g allows",
			n.FalseFlags, n.Comparisons, n.Level))
		e.ProvenHint = "`gemmaudit doctor` shows sources of noise on this machine"
	}
	if len(test.Checks) > 0 && checked == 0 {
		e.Open = append(e.Open, outcome.Ground{Text: "no kernel was compared with the reference: " + test.Checks[0].Skipped})
	}
	return e
}
