package table

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of a table: far above a sweep's, and within C's types and readers' memory.
const (
	maxSize      = math.MaxInt32 // of M, N, K and parts
	maxBytes     = 1 << 53       // exact in readers whose numbers are float64
	maxParts     = 64            // of a split
	maxIntervals = 1 << 20       // of a series
	maxSeries    = 1 << 16
	maxProofs    = 1 << 20 // of an interval
	maxFeatures  = 1024    // and libraries
	maxWord      = 4096    // bytes of a name
)

// Validate returns all errors of the table, joined, or nil. Messages name the series and interval.
func (t *Table) Validate() error {
	v := &validator{}
	if t.Schema != Schema {
		v.fail("schema is %q, expected %q", t.Schema, Schema)
	}
	// time.Parse also accepts an hour of one digit and a comma before the fraction.
	if _, err := time.Parse(time.RFC3339, t.Created); err != nil || t.Created[len("2006-01-02T15")] != ':' ||
		strings.Contains(t.Created, ",") {
		v.fail("created is %q, expected a time as in 2006-01-02T15:04:05Z", t.Created)
	}
	v.validators(&t.Validators)
	if len(t.Series) > maxSeries {
		v.fail("%d series, expected at most %d", len(t.Series), maxSeries)
		return v.err()
	}
	for i := range t.Series {
		s := &t.Series[i]
		v.series(s)
		if i > 0 {
			prev := &t.Series[i-1]
			switch c := prev.Compare(s.Product); {
			case c == 0:
				v.fail("series %v stands twice", s)
			case c > 0:
				v.fail("series %v stands after %v, expected ascending kernel, dtype, weights, layout, n, k and epilogue", s, prev)
			}
		}
	}
	if len(t.Advice) > maxSeries {
		v.fail("%d pieces of advice, expected at most %d", len(t.Advice), maxSeries)
		return v.err()
	}
	for i := range t.Advice {
		v.advice(&t.Advice[i])
	}
	return v.err()
}

// String returns "onednn/bf16/n14336 k4096 nk"; "kn" and empty fields are omitted.
func (p Product) String() string {
	s := fmt.Sprintf("n%d k%d", p.N, p.K)
	for _, name := range []string{p.DType, p.Kernel} {
		if name != "" {
			s = name + "/" + s
		}
	}
	if p.Layout != KN && p.Layout != "" {
		s += " " + p.Layout
	}
	if p.Weights != "" {
		s += " weights " + p.Weights
	}
	if p.Epilogue != "" {
		s += " " + p.Epilogue
	}
	return s
}

// place is a series, its default or an interval with an error. It is formatted only on an error.
type place struct {
	series *Series
	of     int // the interval from 1 on, 0 for the default, -1 for the series
}

func (p place) String() string {
	switch {
	case p.of < 0:
		return fmt.Sprintf("series %v", p.series)
	case p.of == 0:
		return fmt.Sprintf("series %v: default", p.series)
	}
	iv := &p.series.Intervals[p.of-1]
	return fmt.Sprintf("series %v: interval %d (m%d to m%d)", p.series, p.of, iv.From, iv.To)
}

type validator struct{ errs []error }

// enough is the maximum number of errors listed: a table may have millions.
const enough = 100

func (v *validator) fail(format string, args ...any) {
	if len(v.errs) < enough {
		v.errs = append(v.errs, fmt.Errorf(format, args...))
	}
}

func (v *validator) err() error { return errors.Join(v.errs...) }

func (v *validator) word(where any, name, s string) {
	if why := unfit(s); why != "" {
		v.fail("%v: %s %s", where, name, why)
	}
}

// unfit returns why a text is not a valid name; empty if it is.
func unfit(s string) string {
	switch {
	case len(s) > maxWord:
		return fmt.Sprintf("has %d bytes, expected at most %d", len(s), maxWord)
	case !utf8.ValidString(s):
		return fmt.Sprintf("is %q, expected UTF-8", s)
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return fmt.Sprintf("is %q, expected no control characters", s)
		}
	}
	return ""
}

func (v *validator) validators(w *Validators) {
	for _, f := range []struct{ name, value string }{
		{"device", w.Device}, {"driver", w.Driver}, {"kernel", w.Kernel}, {"regime", w.Regime},
		{"clock_policy", w.ClockPolicy}, {"arch", w.Arch}, {"cpu_model", w.CPUModel},
		{"gemmaudit", w.Gemmaudit},
	} {
		v.word("validators", f.name, f.value)
	}
	for name, version := range w.Libraries {
		v.word("validators", "library", name)
		v.word("validators", "library "+name, version)
	}
	if len(w.Features) > maxFeatures {
		v.fail("validators: %d features, expected at most %d", len(w.Features), maxFeatures)
		w = &Validators{Cores: w.Cores, Threads: w.Threads}
	}
	for _, name := range w.Features {
		v.word("validators", "feature", name)
	}
	if len(w.Libraries) > maxFeatures {
		v.fail("validators: %d libraries, expected at most %d", len(w.Libraries), maxFeatures)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"cores", w.Cores}, {"threads", w.Threads}} {
		if f.value < 0 || f.value > maxSize {
			v.fail("validators: %s is %d, expected 0 to %d", f.name, f.value, maxSize)
		}
	}
}

func (v *validator) series(s *Series) {
	if s.Kernel == "" || s.DType == "" {
		v.fail("series %v has no kernel or no dtype", s)
	}
	where := place{s, -1}
	v.word(where, "kernel", s.Kernel)
	v.word(where, "dtype", s.DType)
	v.word(where, "weights", s.Weights)
	v.word(where, "epilogue", s.Epilogue)
	if s.Layout != KN && s.Layout != NK {
		v.fail("series %v: layout is %.20q, expected %s or %s", s, s.Layout, KN, NK)
	}
	if s.N < 1 || s.N > maxSize || s.K < 1 || s.K > maxSize {
		v.fail("series %v: n and k are expected from 1 to %d", s, maxSize)
	}
	if len(s.Intervals) > maxIntervals {
		v.fail("series %v has %d intervals, expected at most %d", s, len(s.Intervals), maxIntervals)
		return
	}
	// The default applies to every M, so it can't depend on M.
	switch s.Default.kind() {
	case Direct, Kernel:
		v.action(place{s, 0}, s.Default, 1, maxSize)
	case Split, Pad:
		v.fail("series %v: the default action is a %s, which is not applicable to every m: expected direct or kernel", s, s.Default.Kind)
	default:
		v.fail("series %v: default: unknown action %q: expected direct or kernel", s, s.Default.Kind)
	}
	v.swept(s)
	end := 0
	for i := range s.Intervals {
		iv, where := &s.Intervals[i], place{s, i + 1}
		if iv.From < 1 || iv.To < iv.From || iv.To > maxSize {
			v.fail("%s: expected 1 <= from <= to <= %d", where, maxSize)
			continue
		}
		if iv.From <= end {
			v.fail("%s: begins before the one before it ends, at m%d", where, end)
		}
		end = max(end, iv.To)
		// From is a measured M or directly follows the previous interval.
		if iv.Step < 0 || iv.Step > maxSize || iv.Step > 1 && (iv.To-iv.From)%iv.Step != 0 && (iv.To-iv.From+1)%iv.Step != 0 {
			v.fail("%s: step %d does not lead from one end to the other", where, iv.Step)
		}
		if iv.Filled && iv.Step > 1 {
			v.fail("%s: it is filled with step %d, expected none", where, iv.Step)
		}
		if s.ToM > 0 && (iv.From < s.FromM || iv.To > s.ToM) {
			v.fail("%s: expected within m%d to m%d, which were swept", where, s.FromM, s.ToM)
		}
		v.action(where, iv.Action, iv.From, iv.To)
		v.proofs(where, iv)
	}
}

func (v *validator) swept(s *Series) {
	switch {
	case s.FromM == 0 && s.ToM == 0 && s.Served == 0:
	case s.FromM < 1 || s.ToM < s.FromM || s.ToM > maxSize:
		v.fail("series %v: swept from m%d to m%d, expected 1 <= from_m <= to_m <= %d", s, s.FromM, s.ToM, maxSize)
	case s.Served != s.Count():
		v.fail("series %v: served is %d, the intervals have %d", s, s.Served, s.Count())
	}
}

// action checks that an action applies to every m of [from, to].
func (v *validator) action(where place, a Action, from, to int) {
	kind := a.kind()
	if kind != Split && len(a.First) > 0 {
		v.fail("%s: %s with parts %v", where, kind, a.First)
	}
	if kind != Pad && a.PadTo != 0 {
		v.fail("%s: %s with pad_to %d", where, kind, a.PadTo)
	}
	if kind != Pad && a.Pad != "" {
		v.fail("%s: %s with pad %q", where, kind, a.Pad)
	}
	if kind != Kernel && kind != Algorithm && a.Kernel != "" {
		v.fail("%s: %s with kernel %q", where, kind, a.Kernel)
	}
	if kind != Algorithm && a.Algorithm != (Attributes{}) {
		v.fail("%s: %s with an algorithm", where, kind)
	}
	switch kind {
	case Direct:
	case Split:
		if len(a.First) < 1 || len(a.First) >= maxParts {
			v.fail("%s: a split with %d leading parts, expected 1 to %d", where, len(a.First), maxParts-1)
			return
		}
		sum := 0
		for _, part := range a.First {
			if part < 1 || part > maxSize {
				v.fail("%s: a leading part of %d, expected 1 to %d", where, part, maxSize)
				return
			}
			sum += part
		}
		if sum >= from {
			v.fail("%s: the leading parts %v add up to %d, expected less than %d", where, a.First, sum, from)
		}
	case Pad:
		if a.PadTo < to || a.PadTo > maxSize {
			v.fail("%s: pad_to is %d, expected %d to %d", where, a.PadTo, to, maxSize)
		}
		if a.Pad != InPlace && a.Pad != Copied {
			v.fail("%s: pad is %.20q, expected %s or %s", where, a.Pad, InPlace, Copied)
		}
	case Kernel, Algorithm:
		if a.Kernel == "" {
			v.fail("%s: no name of a kernel", where)
		}
		if why := unfit(a.Kernel); why != "" {
			v.fail("%s: kernel %s", where, why)
		}
		if kind == Algorithm {
			v.attributes(where, a.Algorithm)
		}
	default:
		v.fail("%s: unknown action %q: expected direct, split, pad, kernel or algorithm", where, a.Kind)
	}
}

// attributes checks that an algorithm has some, each of 16 bits.
func (v *validator) attributes(where place, a Attributes) {
	if a == (Attributes{}) {
		v.fail("%s: no attributes of an algorithm", where)
	}
	for _, n := range a.list() {
		if n < 0 || n > math.MaxUint16 {
			v.fail("%s: an attribute of the algorithm is %d, expected 0 to %d", where, n, math.MaxUint16)
		}
	}
}

func (v *validator) proofs(where place, iv *Interval) {
	last := 0
	for i := range iv.Proofs {
		p := &iv.Proofs[i]
		if p.M < iv.From || p.M > iv.To || p.M <= last {
			v.fail("%s: proof at m%d, expected ascending m inside the interval", where, p.M)
		}
		last = p.M
		for _, f := range []struct {
			name  string
			value float64
		}{
			{"direct_us", p.DirectUS}, {"remedy_us", p.RemedyUS},
			{"gain_lo", p.GainLo}, {"gain_mid", p.GainMid}, {"gain_hi", p.GainHi},
		} {
			if !(f.value > 0) || math.IsInf(f.value, 0) {
				v.fail("%s: proof at m%d: %s is %v, expected a number above 0", where, p.M, f.name, f.value)
			}
		}
		if p.GainLo > p.GainMid || p.GainMid > p.GainHi {
			v.fail("%s: proof at m%d: gains %v, %v, %v are not ascending", where, p.M, p.GainLo, p.GainMid, p.GainHi)
		}
		if p.Numerics != nil {
			v.numerics(where, p)
		}
	}
}

func (v *validator) numerics(where place, p *Proof) {
	n := p.Numerics
	for _, e := range []float64{n.DirectError, n.RemedyError} {
		if !(e >= 0) || math.IsInf(e, 0) {
			v.fail("%s: proof at m%d: an error is %v, expected a number of at least 0", where, p.M, e)
		}
	}
	if n.Rows < 1 || n.Columns < 0 || len(n.OtherMs) > maxParts {
		v.fail("%s: proof at m%d: numerics of %d rows and %d columns at %d other ms, expected at least 1 row and at most %d ms", where, p.M,
			n.Rows, n.Columns, len(n.OtherMs), maxParts)
	}
	for _, m := range n.OtherMs {
		if m < 1 || m > maxSize {
			v.fail("%s: proof at m%d: numerics at m%d, expected 1 to %d", where, p.M, m, maxSize)
		}
	}
}
