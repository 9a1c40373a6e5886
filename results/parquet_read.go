package results

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// ExportedRun is one run of one machine as an export in Parquet holds it.
type ExportedRun struct {
	// Run is the run's id, Host the machine, Labels what its user calls it by. Cards are the UUIDs or serial numbers of its
	// cards by the ids of devices.
	Run, Host string
	Labels    Labels
	Cards     map[string]string
	// Meta is what the file tells of the run: see [ReadParquet].
	Meta Meta
	// Series, Sentinels and Sustained are what [Run.Load] returns of a run file, the last by case.
	Series    []Series
	Sentinels []Sample
	Sustained []Row
}

const (
	// mostParquetRows bounds the samples of one file: more do not fit in memory at once.
	mostParquetRows = 32 << 20
	// parquetRows is how many lines are read at once.
	parquetRows = 4096
	// mostWordBytes bounds one word: the ceilings of a device are the longest.
	mostWordBytes = 1 << 16
	// oldStarted is what early exports call the time at which a block started.
	oldStarted = "started_us"

	exportHint = "give what `gemmaudit export --format parquet` writes"
)

// ReadParquet reads the samples of an export. Columns are found by their names, in any order; those that it does not know are
// passed over, and of the others only device, kernel, dtype, m and us must be there. Lines of several runs, hosts or cards
// are told apart. Splits and padded products are left out. What the file does not tell of a run is empty in its Meta; each device that has
// samples is in its fingerprint.
//
// A file that is not Parquet, or damaged, is a [*FormatError].
func ReadParquet(path string) (found []ExportedRun, err error) {
	damaged := func(reason any) error { return damagedParquet(path, reason) }
	defer func() {
		// The decoder indexes by what a file says.
		if reason := recover(); reason != nil {
			found, err = nil, damaged(reason)
		}
	}()
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	defer f.Close()
	file, size, err := openParquet(path, f)
	if err != nil {
		return nil, err
	}
	r := &parquetReader{runs: map[parquetRun]*exportedRun{}, cases: map[parquetCase]*exportedCase{}, rates: map[int32]kernels.Ceilings{}}
	if _, ok := file.Lookup(keyExport); ok {
		if r.meta, _, err = ExportedMeta(file.Lookup); err != nil {
			return nil, damaged(err)
		}
	}
	if err := r.columns(file); err != nil {
		return nil, &FormatError{Path: path, Reason: err.Error(), Hint: exportHint}
	}
	file, err = unpackParquet(f, size, file, r.at)
	if errors.Is(err, errNotSupported) {
		return nil, unsupportedParquet(path, err)
	}
	if err != nil {
		return nil, damaged(err)
	}
	for _, group := range file.RowGroups() {
		if err := r.group(group); err != nil {
			return nil, damaged(err)
		}
	}
	return r.result(), nil
}

func damagedParquet(path string, reason any) error {
	return &FormatError{Path: path, Reason: fmt.Sprintf("the Parquet file is damaged: %v", reason), Hint: damagedHint}
}

func unsupportedParquet(path string, err error) error {
	return &FormatError{Path: path, Reason: fmt.Sprintf("the Parquet file can't be read: %v", err), Hint: exportHint}
}

type parquetReader struct {
	meta   Meta
	at     map[string]int // places of columns by name
	words  [wordsRead]words
	runs   map[parquetRun]*exportedRun
	order  []*exportedRun
	cases  map[parquetCase]*exportedCase
	caseOf []*exportedCase
	rates  map[int32]kernels.Ceilings // by number of the word
	// devices counts what mostParquetDevices bounds.
	devices int

	word   [wordsRead][]int32
	count  [countsRead][]int64
	figure [figuresRead][]float64
}

// group reads a group of lines.
func (r *parquetReader) group(group parquet.RowGroup) (err error) {
	chunks := group.ColumnChunks()
	var open []*columnReader
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.close())
		}
	}()
	column := func(name string) *columnReader {
		at, ok := r.at[name]
		if !ok || at >= len(chunks) {
			return nil
		}
		c := &columnReader{pages: chunks[at].Pages(), room: make([]parquet.Value, parquetRows), name: name}
		open = append(open, c)
		return c
	}
	var words [wordsRead]*columnReader
	var counts [countsRead]*columnReader
	var figures [figuresRead]*columnReader
	for i, name := range wordColumns {
		words[i] = column(name)
	}
	for i, name := range countColumns {
		counts[i] = column(name)
	}
	for i, name := range figureNames {
		figures[i] = column(name)
	}
	for left := group.NumRows(); left > 0; left -= parquetRows {
		n := int(min(left, parquetRows))
		for i, c := range words {
			if c == nil {
				continue
			}
			if err := c.read(n, func(k int, v parquet.Value) (err error) {
				switch {
				case v.IsNull():
					r.word[i][k] = 0
				case v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray:
					r.word[i][k], err = r.words[i].number(v.ByteArray())
				default:
					err = fmt.Errorf("holds %v, expected text", v.Kind())
				}
				return err
			}); err != nil {
				return err
			}
		}
		for i, c := range counts {
			if c == nil {
				continue
			}
			if err := c.read(n, func(k int, v parquet.Value) error {
				switch {
				case v.IsNull():
					r.count[i][k] = 0
				case v.Kind() == parquet.Int64:
					r.count[i][k] = v.Int64()
				case v.Kind() == parquet.Int32:
					r.count[i][k] = int64(v.Int32())
				case v.Kind() == parquet.Boolean:
					r.count[i][k] = 0
					if v.Boolean() {
						r.count[i][k] = 1
					}
				default:
					return fmt.Errorf("holds %v, expected a whole number", v.Kind())
				}
				return nil
			}); err != nil {
				return err
			}
		}
		for i, c := range figures {
			if c == nil {
				continue
			}
			if err := c.read(n, func(k int, v parquet.Value) error {
				switch {
				case v.IsNull():
					r.figure[i][k] = 0
				case v.Kind() == parquet.Double:
					r.figure[i][k] = v.Double()
				case v.Kind() == parquet.Float:
					r.figure[i][k] = float64(v.Float())
				default:
					return fmt.Errorf("holds %v, expected a number", v.Kind())
				}
				return nil
			}); err != nil {
				return err
			}
		}
		for k := range n {
			if err := r.line(k); err != nil {
				return err
			}
		}
	}
	return nil
}
