package results

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
)

// ImportOptions say what a CSV does not. Against a column, Device and Kernel give
// another name, with a warning, and the others are an error where they contradict
// it; against the file's name all of them hold, with a warning. Zero values leave
// the word to the file and its name.
type ImportOptions struct {
	Device string        // the device's name
	Kernel string        // the library that was timed; "torch" for published sweeps
	DType  kernels.DType // of the operands
	N, K   int
	// Library is the library with its version: "torch 2.5.1+cu124".
	Library string
	Regime  Regime
	// Layout is that of the weights; empty for what the file says, and kn where it says
	// nothing.
	Layout string
	// Peaks are dense rates of the devices, of origin [kernels.Given]. They come before those of the file and of data sheets.
	Peaks []kernels.Peak
	// Labels are those of samples that have none in the file.
	Labels Labels
	// LeaveOut leaves out lines that cannot be read and counts them in [Imported]; else the first one is the error of
	// the import.
	LeaveOut bool
	// Command and Gemmaudit go into the run's [Meta].
	Command   string
	Gemmaudit string
	// Created stamps a run whose lines do not say when they were measured; zero for the present moment.
	Created time.Time
}

// ImportError is what is wrong with one cell, or one line, of a CSV.
type ImportError struct {
	Path string
	// Line counts from 1, the header included; 0 for the file as a whole.
	Line int
	// Column is the name in the header, empty when no single one is at fault.
	Column string
	// Value is the cell as it stands, when Column is set.
	Value  string
	Reason string
	Hint   string
	// whole is set when the file or the flags are at fault, and not one line.
	whole bool
}

func (e *ImportError) Error() string {
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

// record is one line of a CSV: a sample, the case it belongs to and where it comes from.
type record struct {
	c Case
	s Sample
	o originWords
	// path and line say where it stands.
	path string
	line int
	// counted is set when the line does not name its round: it is the next of its case.
	counted bool
	// placed is set when the line names its seq.
	placed bool
}

// originWords is an origin as a line has it.
type originWords struct{ run, host, name, card, labels string }

// parsed is what one or more CSVs hold as a whole. Their lines are given on as they
// come: [parsed.read] parses on one goroutine, checks and stores on another.
type parsed struct {
	// Of the goroutine that parses.
	warnings []string
	peaks    map[peakKey]*peakEstimate
	versions map[string]string // of what was timed: "torch", "cuda"
	ceilings map[string]kernels.Ceilings
	clocks   map[string]float64 // reference clocks in MHz by device, 0 where lines differ
	// distribution and seed are set when the file has those columns.
	distribution kernels.Distribution
	seed         uint64
	seedKnown    bool
	lines        int // that are given on
	batch        []record
	give         func(batch []record) ([]record, error)
	imported     []Imported // the last one is of the present file
	naming       naming

	// Of the goroutine that stores.
	store *importStore
}

func newParsed() *parsed {
	return &parsed{peaks: map[peakKey]*peakEstimate{}, versions: map[string]string{}, clocks: map[string]float64{}, store: newImportStore()}
}

// peakKey is what a utilisation column is relative to.
type peakKey struct {
	device string
	dtype  kernels.DType
}

// Import turns files of measurements into a run at out and opens it for reading. The output of
// other programs is read as package producer says, by [producer.Recognize]. Two kinds of CSV are
// known by their header, in any order of columns.
//
// A published sweep has the columns batch (M), kernel_time (microseconds) and,
// where known, flops (TFLOP/s), utils (MFU) and kernel_name. Device, library, K,
// N and data type stand in the file's name, as in
// torchgemm_NVIDIA_A800_80GB_PCIe_torch_2.5.1+cu124_K4096_N4096_bfloat16.csv.
// Lines with the same M are further rounds of it. The peak follows from flops
// and utils, within what their rounding allows; utils is kept as it stands.
// Quantised weights, as in Marlin_…_K4096_N28672_dtype_gptq_int8.csv, become part
// of the kernel's name, marlin-gptq-int8. The data type is that of the activations:
// fp16, with a warning, where neither the name nor an option says it.
//
// A samples CSV has one line a sample: device, kernel, dtype, m, n, k, round, us
// and, where known, clock_mhz, power_w and temp_c, and any further column that
// [Export] writes. The time may be in ms or seconds instead; without round, lines of a case are
// its rounds in their order. Columns that change what is computed and are not read, as transA, are
// refused; others are ignored with a warning. Devices of one name on several hosts or cards are
// told apart by column host or card, which becomes part of the device's name.
//
// What is wrong with a file is an [ImportError]; then nothing is left at out. A
// file that is at out already is never replaced.
func Import(ctx context.Context, paths []string, out string, opt ImportOptions) (*Run, error) {
	if len(paths) == 0 {
		return nil, errors.New("import: no file given, expected at least one CSV")
	}
	if err := opt.Labels.Check(); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	if err := refuseExisting(out); err != nil {
		return nil, err
	}
	for how := byDevice; ; how++ {
		r, err := importNamed(ctx, paths, out, opt, how)
		if how == byCard || !errors.Is(err, errManyMachines) {
			return r, err
		}
	}
}

// importNamed imports with devices named in one way.
func importNamed(ctx context.Context, paths []string, out string, opt ImportOptions, how naming) (*Run, error) {
	p := newParsed()
	p.store.labels, p.naming = opt.Labels, how
	var refused error // what is wrong with a file, which says so itself
	err := buildBulk(ctx, out, func(w *bulkWriter) error {
		p.store.w = w
		for _, path := range paths {
			if err := p.file(ctx, path, opt); err != nil {
				if code, _ := sqliteCode(err); code == 0 {
					refused = err
				}
				return err
			}
		}
		if refused = p.anyRead(); refused != nil {
			return refused
		}
		return w.meta(p.meta(paths, opt))
	})
	if refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	r, err := Open(out)
	if err != nil {
		return nil, err
	}
	r.warnings = append(r.warnings, p.warnings...)
	r.swept, r.imported = p.store.swept(), p.imported
	return r, nil
}

// meta describes an imported run as far as the files tell.
func (p *parsed) meta(paths []string, opt ImportOptions) Meta {
	meta := Meta{
		Created: opt.Created, Command: opt.Command, Gemmaudit: opt.Gemmaudit,
		Regime: opt.Regime, Distribution: p.distribution, Seed: p.seed,
		Source:   strings.Join(paths, ", "),
		Ceilings: highest(map[string]kernels.Ceilings{}, p.ceilings),
	}
	// What was measured elsewhere was measured when its lines say, and not when it came here.
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
			from.names[device] = device // which the user says
		}
		meta.Fingerprint.Devices = append(meta.Fingerprint.Devices, kernels.Spec{
			ID: device, Kind: cmp.Or(kernels.KindOf(device), kernels.KindOf(p.store.named[device])), Name: cmp.Or(from.names[device], device), UUID: from.cards[device], Versions: p.versions,
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
			return slices.ContainsFunc(opt.Peaks, func(given kernels.Peak) bool { return given.DType == p.DType && given.Origin == p.Origin })
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

// withSheet adds the peaks and the bandwidth of a device's data sheet to the ceilings of an import. A file with ceilings of its
// own, as [Export] writes them, keeps those alone, and so does a type whose peak follows from the file.
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
