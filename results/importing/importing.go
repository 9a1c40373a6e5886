package importing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/datasheet"
	"github.com/gemmaudit/gemmaudit/results"
)

// Options supplement a CSV. Device and Kernel override a column with a warning; other options are
// errors if they contradict a column. All override the file's name with a warning. Zero values defer to the
// file and its name.
type Options struct {
	Device string        // the device's name
	Kernel string        // the timed library; "torch" for published sweeps
	DType  kernels.DType // of the operands
	N, K   int
	// Library is the library with its version: "torch 2.5.1+cu124".
	Library string
	Regime  results.Regime
	// Layout is the weights' layout; empty for the file's, and kn if the file has none.
	Layout string
	// Peaks are dense rates of the devices with origin [kernels.Given]. They take precedence over the file's
	// and data sheets'.
	Peaks []kernels.Peak
	// Labels are for samples without labels in the file.
	Labels results.Labels
	// LeaveOut skips unreadable lines and counts them in [Imported]; otherwise the first is the import's
	// error.
	LeaveOut bool
	// Command and Gemmaudit are stored in the run's [results.Meta].
	Command   string
	Gemmaudit string
	// Created is the run's time if its lines have none; zero for now.
	Created time.Time
}

// Error is an error in one cell or line of a CSV.
type Error struct {
	Path string
	// Line counts from 1 with the header; 0 for the whole file.
	Line int
	// Column is the name in the header, empty if no single column is at fault.
	Column string
	// Value is the cell's text if Column is set.
	Value  string
	Reason string
	Hint   string
	// Untimed means that the file is a workload for [ReadWorkload] without times.
	Untimed bool
	// whole is set if the file or the flags are at fault instead of one line.
	whole bool
}

func (e *Error) Error() string {
	s := e.Path
	if e.Line > 0 {
		s += fmt.Sprintf(":%d", e.Line)
	}
	if e.Column != "" {
		cell := "the cell"
		if e.Value != "" {
			cell = strconv.Quote(e.Value)
		}
		return fmt.Sprintf("%s: column %s: %s %s", s, e.Column, cell, e.Reason)
	}
	return s + ": " + e.Reason
}

// record is one line of a CSV: a sample, its case and its origin.
type record struct {
	c results.Case
	s results.Sample
	o originWords
	// path and line locate it.
	path string
	line int
	// counted is set if the line has no round: it is the next of its case.
	counted bool
	// placed is set if the line has a seq.
	placed bool
}

type originWords struct{ run, host, name, card, labels string }

// parsed is the state of an import of CSVs. Lines are passed on as read: [parsed.read] parses on one
// goroutine, checks and stores on another.
type parsed struct {
	// The parsing goroutine's fields.
	warnings []string
	peaks    map[peakKey]*peakEstimate
	versions map[string]string // of the timed libraries: "torch", "cuda"
	ceilings map[string]kernels.Ceilings
	clocks   map[string]float64 // reference clocks in MHz by device, 0 if lines differ
	// distribution and seed are set if the file has those columns.
	distribution kernels.Distribution
	seed         uint64
	seedKnown    bool
	lines        int // number of lines passed on
	batch        []record
	give         func(batch []record) ([]record, error)
	imported     []Imported // the last is the current file's
	naming       naming

	// The storing goroutine's field.
	store *importStore
}

func newParsed() *parsed {
	return &parsed{peaks: map[peakKey]*peakEstimate{}, versions: map[string]string{}, clocks: map[string]float64{}, store: newImportStore()}
}

type peakKey struct {
	device string
	dtype  kernels.DType
}

// Result is an imported run, open for reading, with the import of each file.
type Result struct {
	*results.Run
	Files []Imported
}

// Import converts measurement files into a run at out and opens it for reading. Other programs' output is
// read as described in package producer, by [producer.Recognize]. Two kinds of CSV are recognized by their
// header, with columns in any order.
//
// A published sweep has the columns batch (M), kernel_time (microseconds) and optionally flops (TFLOP/s),
// utils (MFU) and kernel_name. The file name holds device, library, K, N and data type, as in
// torchgemm_NVIDIA_A800_80GB_PCIe_torch_2.5.1+cu124_K4096_N4096_bfloat16.csv. Lines with the same M are
// rounds. The peak is computed from flops and utils, within their rounding; utils is kept unchanged.
// Quantized weights, as in Marlin_…_K4096_N28672_dtype_gptq_int8.csv, become part of the kernel's name,
// marlin-gptq-int8. The data type is the activations': fp16, with a warning, if neither the name nor an
// option gives it.
//
// A samples CSV has one line per sample: device, kernel, dtype, m, n, k, round, us and optionally clock_mhz,
// power_w, temp_c and any other column of package export. The time may be in ms or seconds; without round, a case's
// lines are its rounds in order. Unsupported columns that change the computation, such as transA, are
// refused; others are ignored with a warning. Devices of one name on several hosts or cards are distinguished
// by column host or card, which becomes part of the device's name.
//
// Errors in a file are [Error] and leave no file at out. An existing file at out is never replaced.
func Import(ctx context.Context, paths []string, out string, opt Options) (*Result, error) {
	if len(paths) == 0 {
		return nil, errors.New("import: no file given, expected at least one CSV")
	}
	if err := opt.Labels.Check(); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	for how := byDevice; ; how++ {
		r, err := importNamed(ctx, paths, out, opt, how)
		if how == byCard || !errors.Is(err, errManyMachines) {
			return r, err
		}
	}
}

func importNamed(ctx context.Context, paths []string, out string, opt Options, how naming) (*Result, error) {
	p := newParsed()
	p.store.labels, p.naming = opt.Labels, how
	r, err := results.Build(ctx, out, func(w *results.Writer) error {
		p.store.w = w
		for _, path := range paths {
			if err := p.file(ctx, path, opt); err != nil {
				return err
			}
		}
		if err := p.anyRead(); err != nil {
			return err
		}
		return w.Meta(p.meta(paths, opt))
	})
	if err != nil {
		return nil, err
	}
	r.Warn(p.warnings...)
	return &Result{r, p.imported}, nil
}

func (p *parsed) meta(paths []string, opt Options) results.Meta {
	meta := results.Meta{
		Created: opt.Created, Command: opt.Command, Gemmaudit: opt.Gemmaudit,
		Regime: opt.Regime, Distribution: p.distribution, Seed: p.seed,
		Source:   strings.Join(paths, ", "),
		Ceilings: results.HighestCeilings(map[string]kernels.Ceilings{}, p.ceilings),
	}
	// The time of measurement is the lines', not the import's.
	if p.store.first > 0 {
		meta.Created = time.UnixMicro(p.store.first).UTC()
	}
	if meta.Created.IsZero() {
		meta.Created = time.Now()
	}
	if meta.Regime == "" {
		meta.Regime = p.store.regime
	}
	from := p.store.oneMachine()
	meta.Fingerprint.Hostname, meta.Labels = from.host, from.labels
	for _, device := range p.store.devices {
		if opt.Device != "" {
			from.names[device] = device // given by the user
		}
		meta.Fingerprint.Devices = append(meta.Fingerprint.Devices, kernels.Spec{
			ID: device, Kind: cmp.Or(kernels.KindOf(device), kernels.KindOf(p.store.named[device])),
			Name: cmp.Or(from.names[device], device), UUID: from.cards[device], Versions: p.versions,
		})
	}
	for device, mhz := range p.clocks {
		if mhz > 0 {
			if meta.ReferenceClock == nil {
				meta.ReferenceClock = map[string]float64{}
			}
			meta.ReferenceClock[device] = mhz
		}
	}
	for key, e := range p.peaks {
		if peak, ok := e.peak(key.dtype); ok {
			c := meta.Ceilings[key.device]
			c.Peaks = append(c.Peaks, peak)
			meta.Ceilings[key.device] = c
		}
	}
	for _, d := range meta.Fingerprint.Devices {
		known := withSheet(meta.Ceilings[d.ID], p.ceilings[d.ID], d.Name)
		known.Peaks = append(slices.DeleteFunc(slices.Clone(known.Peaks), func(p kernels.Peak) bool {
			return slices.ContainsFunc(opt.Peaks,
				func(given kernels.Peak) bool { return given.DType == p.DType && given.Origin == p.Origin })
		}), opt.Peaks...)
		if len(known.Peaks) > 0 || known.ReadBandwidth > 0 {
			meta.Ceilings[d.ID] = known
		}
	}
	for _, c := range meta.Ceilings {
		slices.SortStableFunc(c.Peaks, func(a, b kernels.Peak) int { return strings.Compare(string(a.DType), string(b.DType)) })
	}
	return meta
}

// withSheet adds peaks and bandwidth of a device's data sheet to an import's ceilings. Ceilings in the file,
// as package export writes them, are kept alone, and so is a type whose peak follows from the file.
func withSheet(c, read kernels.Ceilings, name string) kernels.Ceilings {
	peaks, bandwidth, known := datasheet.Of(name)
	if !known || len(read.Peaks) > 0 || read.ReadBandwidth > 0 {
		return c
	}
	c.ReadBandwidth, c.BandwidthOrigin = bandwidth, kernels.DataSheet
	for _, peak := range peaks {
		if _, from := c.Peak(peak.DType); !from {
			c.Peaks = append(c.Peaks, peak)
		}
	}
	return c
}
