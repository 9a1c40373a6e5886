package results

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// publishedColumns are those of a published sweep.
var publishedColumns = []string{"batch", "kernel_time", "flops", "utils", "kernel_name"}

// fileName matches the parts of a published sweep's name that have a fixed form.
var (
	nameLibrary = regexp.MustCompile(`^([a-z]+)gemm_(.+?)_([a-z]+)_(\d[^_]*)_K\d`)
	nameCUDA    = regexp.MustCompile(`\+cu(\d+)(\d)$`)
	nameK       = regexp.MustCompile(`_K(\d{1,9})(?:_|$)`)
	nameN       = regexp.MustCompile(`_N(\d{1,9})(?:_|$)`)
)

// fromName reads what a published sweep's file name says of its series.
func fromName(path string) (opt ImportOptions, versions map[string]string) {
	name := filepath.Base(path)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	versions = map[string]string{}
	if m := nameLibrary.FindStringSubmatch(name); m != nil {
		opt.Kernel = m[1]
		opt.Device = strings.ReplaceAll(m[2], "_", " ")
		opt.Library = m[3] + " " + m[4]
		versions[m[3]] = m[4]
		if c := nameCUDA.FindStringSubmatch(m[4]); c != nil {
			versions["cuda"] = c[1] + "." + c[2]
		}
	}
	if m := nameK.FindStringSubmatch(name); m != nil {
		opt.K, _ = strconv.Atoi(m[1])
	}
	if m := nameN.FindStringSubmatch(name); m != nil {
		opt.N, _ = strconv.Atoi(m[1])
	}
	for word := range strings.SplitSeq(name, "_") {
		if d, err := kernels.ParseDType(strings.TrimPrefix(word, "dtype")); err == nil {
			opt.DType = d
		}
	}
	return opt, versions
}

// series completes what the flags say with what the name says.
func (opt ImportOptions) series(f *csvFile) (SeriesKey, map[string]string, error) {
	named, versions := fromName(f.path)
	key := SeriesKey{
		Device: orName(f, "device", opt.Device, named.Device), Kernel: orName(f, "library", opt.Kernel, named.Kernel),
		DType: orName(f, "dtype", opt.DType, named.DType),
		N:     orName(f, "N", opt.N, named.N), K: orName(f, "K", opt.K, named.K), Regime: opt.Regime,
	}
	if opt.Library != "" {
		name, version, _ := strings.Cut(opt.Library, " ")
		versions = map[string]string{name: version}
	}
	for _, need := range []struct {
		known      bool
		what, flag string
	}{
		{key.Device != "", "device", "--device-name"},
		{key.Kernel != "", "library", "--kernel"},
		{key.DType != "", "dtype", "--dtype"},
		{key.N > 0, "N", "--n"},
		{key.K > 0, "K", "--k"},
	} {
		if !need.known {
			return key, nil, &ImportError{
				Path:   f.path,
				Reason: fmt.Sprintf("the name of the file does not say the %s", need.what),
				Hint:   "give " + need.flag,
			}
		}
	}
	if key.DType.Size() == 0 || key.DType == kernels.INT32 {
		return key, nil, &ImportError{Path: f.path, Reason: fmt.Sprintf("dtype %q can't be an operand", key.DType)}
	}
	return key, versions, nil
}

// orName is what a flag says, else what the file's name says.
func orName[T comparable](f *csvFile, what string, flag, name T) T {
	var unsaid T
	if flag == unsaid {
		return name
	}
	if name != unsaid && flag != name {
		f.overruled = append(f.overruled, fmt.Sprintf("the %s in the name of the file, %v, is overruled: %v", what, name, flag))
	}
	return flag
}

// published reads a published sweep.
func (p *parsed) published(ctx context.Context, f *csvFile, opt ImportOptions) error {
	key, versions, err := opt.series(f)
	if err != nil {
		return err
	}
	for name, version := range versions {
		p.versions[name] = version
	}
	if extra := f.ignored(publishedColumns); len(extra) > 0 {
		p.warnings = append(p.warnings, fmt.Sprintf("%s: ignored columns %s", f.path, strings.Join(extra, ", ")))
	}
	estimate := p.peaks[peakKey{key.Device, key.DType}]
	if estimate == nil {
		estimate = &peakEstimate{}
		p.peaks[peakKey{key.Device, key.DType}] = estimate
	}
	for {
		ok, err := f.next()
		if err != nil || !ok {
			return err
		}
		rec, err := f.publishedLine(key, estimate)
		if err != nil {
			return err
		}
		if err := p.emit(rec); err != nil {
			return err
		}
	}
}

func (f *csvFile) publishedLine(key SeriesKey, estimate *peakEstimate) (record, error) {
	rec := record{
		c: Case{SeriesKey: key}, s: Sample{Phase: PhaseSweep, Launches: 1},
		path: f.path, line: f.line, counted: true,
	}
	var err error
	if rec.c.M, err = f.dimension("batch", 1); err != nil {
		return rec, err
	}
	if rec.s.US, err = f.microseconds("kernel_time"); err != nil {
		return rec, err
	}
	if rec.c.Label, err = f.text("kernel_name"); err != nil {
		return rec, err
	}
	flops, err := f.optional("flops")
	if err != nil {
		return rec, err
	}
	utils, err := f.optional("utils")
	if err != nil {
		return rec, err
	}
	if flops > 0 && utils > 0 {
		estimate.add(flops, utils, decimals(f.cell("flops")), decimals(f.cell("utils")))
	}
	return rec, nil
}

// decimals is how many digits stand behind the point of a number.
func decimals(s string) int {
	_, frac, _ := strings.Cut(s, ".")
	return len(frac)
}

// peakEstimate finds the peak that a column of utilisation was computed with.
// Every line allows an interval of peaks, given that both columns are rounded;
// the peak lies in all of them.
type peakEstimate struct {
	flops, utils               []float64
	flopsDecimals, utilDecimal int
}

func (e *peakEstimate) add(flops, utils float64, flopsDecimals, utilDecimals int) {
	e.flops, e.utils = append(e.flops, flops), append(e.utils, utils)
	// Trailing zeros are dropped in such files: the longest number of the column
	// tells to how many places it was rounded.
	e.flopsDecimals = max(e.flopsDecimals, flopsDecimals)
	e.utilDecimal = max(e.utilDecimal, utilDecimals)
}

// peak is the middle of what all lines allow, in FLOP/s. When the lines
// contradict each other (two files with two peaks), it is the median of
// flops ÷ utils. The unit says which, and how far it can be off.
func (e *peakEstimate) peak(d kernels.DType) (kernels.Peak, bool) {
	if len(e.flops) == 0 {
		return kernels.Peak{}, false
	}
	half := func(decimals int) float64 {
		u := 0.5
		for range min(decimals, 18) {
			u /= 10
		}
		return u
	}
	df, du := half(e.flopsDecimals), half(e.utilDecimal)
	lo, hi, open := 0.0, 0.0, true
	ratios := make([]float64, len(e.flops))
	for i, f := range e.flops {
		u := e.utils[i]
		ratios[i] = f / u
		lo = max(lo, (f-df)/(u+du))
		if u > du {
			if top := (f + df) / (u - du); open || top < hi {
				hi, open = top, false
			}
		}
	}
	const tera = 1e12
	peak := kernels.Peak{DType: d, Origin: kernels.Published}
	if !open && lo <= hi && lo > 0 {
		mid := (lo + hi) / 2
		peak.FLOPS = mid * tera
		peak.Unit = fmt.Sprintf("flops ÷ utils of the file, ±%.2g %%", 100*(hi-lo)/2/mid)
		return peak, true
	}
	slices.Sort(ratios)
	n := len(ratios)
	mid := (ratios[(n-1)/2] + ratios[n/2]) / 2
	peak.FLOPS = mid * tera
	peak.Unit = fmt.Sprintf("median flops ÷ utils of the file, from %.4g to %.4g TFLOP/s", ratios[0], ratios[n-1])
	return peak, peak.FLOPS > 0 && peak.FLOPS <= maxPeak
}

// maxPeak is above what any machine does, and far below where products with it
// would overflow.
const maxPeak = 1e30
