package results

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// samplesColumns are those of a samples CSV, in the order in which they are
// exported. The first eight are required, save those that an option gives.
var samplesColumns = []string{
	"device", "kernel", "dtype", "m", "n", "k", "round", "us", "clock_mhz", "power_w", "temp_c",
	"phase", "seq", "started_us", "launches", "throttle", "disturbance",
	"regime", "threads", "pack_inside", "parts", "pad_to", "label", "distribution", "seed", "utils",
}

// samples reads a samples CSV.
func (p *parsed) samples(ctx context.Context, f *csvFile, opt ImportOptions) error {
	for _, need := range []struct {
		column, flag string
		given        bool
	}{
		{"device", "--device-name", opt.Device != ""},
		{"kernel", "--kernel", opt.Kernel != ""},
		{"dtype", "--dtype", opt.DType != ""},
		{"n", "--n", opt.N > 0},
		{"k", "--k", opt.K > 0},
		{"round", "", false},
	} {
		if f.has(need.column) || need.given {
			continue
		}
		err := &ImportError{Path: f.path, Line: 1, Reason: fmt.Sprintf("there is no column %s", need.column)}
		if need.flag != "" {
			err.Hint = "give " + need.flag + ", or add the column"
		}
		return err
	}
	if extra := f.ignored(samplesColumns); len(extra) > 0 {
		p.warnings = append(p.warnings, fmt.Sprintf("%s: ignored columns %s", f.path, strings.Join(extra, ", ")))
	}
	if opt.Library != "" {
		name, version, _ := strings.Cut(opt.Library, " ")
		p.versions[name] = version
	}
	base, last := p.seqBase, p.seqBase-1
	seqs := map[int64]int{}
	for {
		ok, err := f.next()
		if err != nil || !ok {
			p.seqBase = last + 1
			return err
		}
		if len(p.records)%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		rec, err := p.sampleLine(f, opt)
		if err != nil {
			return err
		}
		key := roundKey{caseKey: keyOf(rec.c), phase: rec.s.Phase, round: rec.s.Round}
		if line, twice := p.seen[key]; twice {
			return f.fail("round", "of %v repeats line %d", rec.c, line)
		}
		p.seen[key] = rec.line
		if f.cell("seq") == "" {
			rec.s.Seq = last + 1
		} else {
			if line, twice := seqs[rec.s.Seq]; twice {
				return f.fail("seq", "repeats line %d", line)
			}
			seqs[rec.s.Seq] = rec.line
			rec.s.Seq += base
		}
		last = max(last, rec.s.Seq)
		p.records = append(p.records, rec)
	}
}

// sampleLine reads one line.
func (p *parsed) sampleLine(f *csvFile, opt ImportOptions) (record, error) {
	rec := record{path: f.path, line: f.line}
	c, s := &rec.c, &rec.s
	words := []struct {
		column   string
		to       *string
		fallback string
		required bool
	}{
		{"device", &c.Device, "", true},
		{"kernel", &c.Kernel, "", true},
		{"phase", (*string)(&s.Phase), string(PhaseSweep), false},
		{"regime", (*string)(&c.Regime), "", false},
		{"label", &c.Label, "", false},
		{"throttle", &s.Throttle, "", false},
		{"disturbance", &s.Disturbance, "", false},
	}
	given := map[string]string{"device": opt.Device, "kernel": opt.Kernel, "regime": string(opt.Regime)}
	for _, w := range words {
		if g := given[w.column]; g != "" {
			if cell := f.cell(w.column); cell != "" && cell != g {
				if w.column == "regime" {
					return rec, f.contradicts(w.column, "--regime", g)
				}
				if says := fmt.Sprintf("column %s is overruled: every row is of %q", w.column, g); !slices.Contains(f.notes, says) {
					f.notes = append(f.notes, says)
				}
			}
			*w.to = g
			continue
		}
		v, err := f.text(w.column)
		if err != nil {
			return rec, err
		}
		if v == "" {
			if w.required {
				return rec, f.fail(w.column, "is missing")
			}
			v = w.fallback
		}
		*w.to = v
	}
	if err := f.dtype(c, opt); err != nil {
		return rec, err
	}
	for _, d := range []struct {
		column   string
		to       *int
		least    int64
		given    int
		optional bool
	}{
		{"m", &c.M, 1, 0, false},
		{"n", &c.N, 1, opt.N, false},
		{"k", &c.K, 1, opt.K, false},
		{"round", &s.Round, 0, 0, false},
		{"threads", &c.Threads, 0, 0, true},
		{"pad_to", &c.PadTo, 0, 0, true},
		{"launches", &s.Launches, 1, 0, true},
	} {
		if f.cell(d.column) == "" && (d.optional || d.given > 0) {
			*d.to = d.given
			continue
		}
		var err error
		if *d.to, err = f.dimension(d.column, d.least); err != nil {
			return rec, err
		}
		if d.given > 0 && *d.to != d.given {
			return rec, f.contradicts(d.column, "--"+d.column, strconv.Itoa(d.given))
		}
	}
	if s.Launches == 0 {
		s.Launches = 1
	}
	if err := f.measured(s); err != nil {
		return rec, err
	}
	if err := f.execution(c); err != nil {
		return rec, err
	}
	return rec, p.conditions(f)
}

func (f *csvFile) dtype(c *Case, opt ImportOptions) error {
	if f.cell("dtype") == "" {
		if c.DType = opt.DType; c.DType == "" {
			return f.fail("dtype", "is missing")
		}
		return nil
	}
	var err error
	if c.DType, err = kernels.ParseDType(f.cell("dtype")); err != nil {
		return f.fail("dtype", "is not a data type: expected one of %v", kernels.DTypes())
	}
	if opt.DType != "" && c.DType != opt.DType {
		return f.contradicts("dtype", "--dtype", string(opt.DType))
	}
	return nil
}

// measured reads the figures of a sample.
func (f *csvFile) measured(s *Sample) (err error) {
	if s.US, err = f.microseconds("us"); err != nil {
		return err
	}
	for _, n := range []struct {
		column string
		to     *float64
	}{{"clock_mhz", &s.ClockMHz}, {"power_w", &s.PowerW}, {"temp_c", &s.TempC}, {"utils", &s.Utils}} {
		if *n.to, err = f.optional(n.column); err != nil {
			return err
		}
	}
	for _, n := range []struct {
		column string
		to     *int64
	}{{"seq", &s.Seq}, {"started_us", &s.StartedUnixMicro}} {
		if f.cell(n.column) == "" {
			continue
		}
		if *n.to, err = f.whole(n.column, 0); err != nil {
			return err
		}
		// Numbers are shifted behind those of the files before; the bound keeps
		// the sum in range.
		if n.column == "seq" && *n.to > 1<<53 {
			return f.fail(n.column, "is above %d", int64(1)<<53)
		}
	}
	return nil
}

// execution reads how the product is executed.
func (f *csvFile) execution(c *Case) (err error) {
	if s := f.cell("pack_inside"); s != "" {
		if c.PackInside, err = strconv.ParseBool(s); err != nil {
			return f.fail("pack_inside", "is neither true nor false")
		}
	}
	if c.Parts, err = splitParts(f.cell("parts")); err != nil {
		return f.fail("parts", "is not a sum of parts: %v", err)
	}
	if err := c.check(); err != nil {
		return &ImportError{Path: f.path, Line: f.line, Reason: err.Error()}
	}
	return nil
}

// conditions reads what holds for the run as a whole, and must not change.
func (p *parsed) conditions(f *csvFile) error {
	if f.cell("distribution") != "" {
		s, err := f.text("distribution")
		if err != nil {
			return err
		}
		if p.distribution != "" && string(p.distribution) != s {
			return f.fail("distribution", "differs from %q before: a run has one", p.distribution)
		}
		p.distribution = kernels.Distribution(s)
	}
	if s := f.cell("seed"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return f.fail("seed", "is not a seed: expected 0 to 18446744073709551615")
		}
		if p.seedKnown && seed != p.seed {
			return f.fail("seed", "differs from %d before: a run has one", p.seed)
		}
		p.seed, p.seedKnown = seed, true
	}
	return nil
}
