package importing

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

var publishedColumns = []string{"batch", "kernel_time", "flops", "utils", "kernel_name"}

// Patterns in a published sweep's file name. It begins with kernel, device, library, version, K and N:
//
//	torchgemm_NVIDIA_A800_80GB_PCIe_torch_2.5.1+cu124_K4096_N4096_bfloat16.csv
//	Marlin_NVIDIA_A800_80GB_PCIe_vllm_0.6.5_K4096_N28672_dtype_gptq_int8.csv
//
// Library and version directly precede K; the device is in between.
var (
	nameLibrary = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]+?)(?:gemm)?_(.+?)_([a-z][a-z0-9-]*)_(\d[^_]*)_K\d`)
	// nameStart finds the start of such a name after a user's prefix: "torchgemm_", or a word before a
	// vendor.
	nameStart   = regexp.MustCompile(`(?:^|[^A-Za-z0-9])([A-Za-z][A-Za-z0-9]+gemm_|[A-Za-z][A-Za-z0-9]+_(?:NVIDIA|AMD|Intel)_)`)
	nameCUDA    = regexp.MustCompile(`\+cu(\d+)(\d)$`)
	nameK       = regexp.MustCompile(`_K(\d{1,9})(?:_|$)`)
	nameN       = regexp.MustCompile(`_N(\d{1,9})(?:_|$)`)
	nameWeights = regexp.MustCompile(`(?i)(?:^|_)(?:dtype_?)?(gptq|awq|hqq)_(int[48])(?:_|$)`)
)

type named struct {
	Options
	versions map[string]string
	// weights is the format of quantized weights, "gptq-int8", otherwise empty. It is also part of the
	// kernel's name, since a product's data type is its activations'.
	weights string
}

func fromName(path string) named {
	opt := named{versions: map[string]string{}}
	name := filepath.Base(path)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return opt
	}
	if at := nameStart.FindStringSubmatchIndex(name); at != nil {
		name = name[at[2]:]
	}
	if m := nameWeights.FindStringSubmatch(name); m != nil {
		opt.weights = strings.ToLower(m[1] + "-" + m[2])
	}
	if m := nameLibrary.FindStringSubmatch(name); m != nil {
		opt.Kernel = strings.ToLower(m[1])
		if opt.weights != "" {
			opt.Kernel += "-" + opt.weights
		}
		opt.Device = strings.TrimSpace(strings.ReplaceAll(m[2], "_", " "))
		opt.Library = m[3] + " " + m[4]
		opt.versions[m[3]] = m[4]
		if c := nameCUDA.FindStringSubmatch(m[4]); c != nil {
			opt.versions["cuda"] = c[1] + "." + c[2]
		}
	}
	if m := nameK.FindStringSubmatch(name); m != nil {
		opt.K, _ = strconv.Atoi(m[1])
	}
	if m := nameN.FindStringSubmatch(name); m != nil {
		opt.N, _ = strconv.Atoi(m[1])
	}
	for word := range strings.SplitSeq(nameWeights.ReplaceAllString(name, "_"), "_") {
		if d, err := kernels.ParseDType(strings.TrimPrefix(word, "dtype")); err == nil {
			opt.DType = d
		}
	}
	return opt
}

func (opt Options) series(f *csvFile) (results.SeriesKey, map[string]string, error) {
	named := fromName(f.path)
	versions := named.versions
	key := results.SeriesKey{
		Device: orName(f, "device", opt.Device, named.Device), Kernel: orName(f, "library", opt.Kernel, named.Kernel),
		Subject: kernels.Product(orName(f, "dtype", opt.DType, named.DType), orName(f, "N", opt.N, named.N),
			orName(f, "K", opt.K, named.K)),
		Regime: opt.Regime,
	}
	if key.DType == "" && named.weights != "" {
		key.DType = kernels.FP16
		f.notes = append(f.notes,
			fmt.Sprintf("the name of the file says %s for the weights, and not the data type of the activations: taken as fp16; --dtype "+
				"gives another", named.weights))
	}
	if opt.Library != "" {
		name, version, _ := strings.Cut(opt.Library, " ")
		versions = map[string]string{name: version}
	}
	var unknown, flags []string
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
			unknown, flags = append(unknown, need.what), append(flags, need.flag)
		}
	}
	if len(unknown) > 0 {
		return key, nil, &Error{
			Path:   f.path,
			Reason: "the name of the file does not say the " + strings.Join(unknown, ", "),
			Hint:   "give " + strings.Join(flags, " "),
		}
	}
	if _, word, ok := strings.Cut(named.weights, "-"); ok {
		bits, _ := strconv.Atoi(strings.TrimPrefix(word, "int"))
		key.Weights = kernels.WeightFormat{Type: word, Bits: bits}
	}
	if opt.Layout != "" {
		var err error
		if key.Layout, err = kernels.ParseLayout(opt.Layout); err != nil {
			return key, nil, fmt.Errorf("import: %w", err)
		}
	}
	if err := key.Subject.Validate(); err != nil {
		return key, nil, &Error{Path: f.path, Reason: err.Error()}
	}
	return key, versions, nil
}

func orName[T comparable](f *csvFile, what string, flag, name T) T {
	var unsaid T
	if flag == unsaid {
		return name
	}
	if name != unsaid && flag != name {
		f.notes = append(f.notes, fmt.Sprintf("the %s in the name of the file, %v, is overruled: %v", what, name, flag))
	}
	return flag
}

func (p *parsed) published(f *csvFile, opt Options) error {
	key, versions, err := opt.series(f)
	if err != nil {
		return err
	}
	p.assumeLayout(key.Kernel, key.Subject, opt.Layout != "")
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
	return p.each(f, opt, func() (record, error) { return f.publishedLine(key, estimate) })
}

func (f *csvFile) publishedLine(key results.SeriesKey, estimate *peakEstimate) (record, error) {
	rec := record{
		c: results.Case{SeriesKey: key}, s: results.Sample{Phase: results.PhaseSweep, Launches: 1},
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
	if rec.s.Utils, err = f.optional("utils"); err != nil {
		return rec, err
	}
	if flops > 0 && rec.s.Utils > 0 {
		estimate.add(flops, rec.s.Utils, decimals(f.cell("flops")), decimals(f.cell("utils")))
	}
	return rec, nil
}

func decimals(s string) int {
	_, frac, _ := strings.Cut(s, ".")
	return len(frac)
}

// peakEstimate finds the peak behind a utilization column. With rounding in both columns, every line allows
// an interval of peaks, and the peak lies in all of them.
type peakEstimate struct {
	flops, utils               []float64
	flopsDecimals, utilDecimal int
}

func (e *peakEstimate) add(flops, utils float64, flopsDecimals, utilDecimals int) {
	e.flops, e.utils = append(e.flops, flops), append(e.utils, utils)
	// Such files drop trailing zeros: the longest number of a column shows its rounding.
	e.flopsDecimals = max(e.flopsDecimals, flopsDecimals)
	e.utilDecimal = max(e.utilDecimal, utilDecimals)
}

// peak returns the middle of the common interval in FLOP/s, or the median of flops ÷ utils if lines
// contradict each other (two peaks in one file). The unit says which, and its error.
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

// maxPeak is beyond any machine and far below overflow.
const maxPeak = 1e30
