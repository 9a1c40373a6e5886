package parquetfile

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
)

// Run is one run on one machine in a Parquet export.
type Run struct {
	// Run is the run's id, Host the machine, Labels the user's labels. Cards are card UUIDs or serial numbers
	// by device id.
	Run, Host string
	Labels    results.Labels
	Cards     map[string]string
	// Meta is the run's Meta, as far as known: see [ReadRuns].
	Meta results.Meta
	// Series, Sentinels and Sustained are as in [results.Run.Load], the last by case.
	Series    []results.Series
	Sentinels []results.Sample
	Sustained []results.Row
}

const (
	// mostParquetRows limits the samples of a file to what fits in memory.
	mostParquetRows = 32 << 20
	// mostWordBytes limits a text: a device's ceilings are the longest.
	mostWordBytes = 1 << 16
	// oldStarted is early exports' name of a block's start time.
	oldStarted = "started_us"

	exportHint = "give what `gemmaudit export --format parquet` writes"
)

// ReadRuns reads the samples of an export. Columns are found by name; unknown ones are ignored, and only
// device, kernel, dtype, m and us are required. Lines of several runs, hosts or cards are separated. Splits
// and padded products are omitted. Meta lacks what the file does not contain; its fingerprint has every
// device with samples.
//
// A file that is damaged or not Parquet is a [*results.FormatError].
func ReadRuns(path string) (found []Run, err error) {
	in, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	defer in.Close()
	f, err := Open(path, in)
	if err != nil {
		return nil, err
	}
	r := &parquetReader{texts: texts{map[string]int32{"": 0}, []string{""}}, lines: make([]parquetLine, parquetRows),
		runs: map[parquetRun]*exportedRun{}, cases: map[parquetCase]*exportedCase{}, rates: map[int32]kernels.Ceilings{}}
	if _, ok := f.file.Lookup(export.KeySchema); ok {
		if r.meta, _, err = export.Meta(f.file.Lookup); err != nil {
			return nil, f.damaged(err)
		}
	}
	columns, err := r.columns(f)
	if err != nil {
		return nil, &results.FormatError{Path: path, Reason: err.Error(), Hint: exportHint}
	}
	err = f.Read(columns, func(n int) error {
		for i := range n {
			if err := r.line(&r.lines[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r.result(), nil
}

type parquetReader struct {
	meta   results.Meta
	texts  texts
	lines  []parquetLine // a batch
	runs   map[parquetRun]*exportedRun
	order  []*exportedRun
	cases  map[parquetCase]*exportedCase
	caseOf []*exportedCase
	rates  map[int32]kernels.Ceilings // by text
	// devices is the count limited by mostParquetDevices.
	devices int
}
