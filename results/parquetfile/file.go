package parquetfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/results"
)

// parquetRows is the number of lines read at a time.
const parquetRows = 4096

// File is the metadata of a Parquet file, whose columns are read within bounds that follow from its size. A file
// that is damaged or not Parquet is a [*results.FormatError].
type File struct {
	path   string
	in     *os.File
	size   int64
	file   *parquet.File
	names  []string // of the columns with one value per line
	leaves []int    // their indexes in the file
}

// Open reads the metadata of in, which path names.
func Open(path string, in *os.File) (f *File, err error) {
	defer guard(path, &err)
	info, err := in.Stat()
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	f = &File{path: path, in: in, size: info.Size()}
	if err := checkFooter(in, f.size); err != nil {
		return nil, f.damaged(err)
	}
	if f.file, err = parquet.OpenFile(in, f.size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true)); err != nil {
		return nil, f.damaged(err)
	}
	rows, most := int64(0), mostRows(f.size)
	for _, group := range f.file.Metadata().RowGroups {
		if group.NumRows < 0 || group.NumRows > most-rows {
			return nil,
				&results.FormatError{Path: path, Reason: fmt.Sprintf("the Parquet file has more than %d lines in %d bytes", most, f.size)}
		}
		rows += group.NumRows
	}
	for _, c := range f.file.Root().Columns() {
		if c.Leaf() && c.MaxRepetitionLevel() == 0 {
			f.names, f.leaves = append(f.names, c.Name()), append(f.leaves, c.Index())
		}
	}
	return f, nil
}

// guard turns a panic of the decoder, which uses indexes from the file without checks, into an error.
func guard(path string, err *error) {
	if reason := recover(); reason != nil {
		*err = damagedParquet(path, reason)
	}
}

func damagedParquet(path string, reason any) error {
	return &results.FormatError{Path: path, Reason: fmt.Sprintf("the Parquet file is damaged: %v", reason), Hint: results.DamagedHint}
}

func (f *File) damaged(reason any) error { return damagedParquet(f.path, reason) }

// Names lists the columns that have one value per line.
func (f *File) Names() []string { return f.names }

// Column is a column to read.
type Column struct {
	// Name is for messages, At the place in [File.Names].
	Name string
	At   int
	// Take receives the value of line i of a batch.
	Take func(i int, v parquet.Value) error

	values parquet.ColumnChunkValueReader
}

// Read passes the columns' values to their Take and calls batch after each batch of n lines, at most
// parquetRows.
func (f *File) Read(columns []Column, batch func(n int) error) (err error) {
	defer guard(f.path, &err)
	places := map[string]int{}
	for _, c := range columns {
		places[c.Name] = f.leaves[c.At]
	}
	file, err := unpackParquet(f.in, f.size, f.file, places)
	if errors.Is(err, errNotSupported) {
		return &results.FormatError{Path: f.path, Reason: fmt.Sprintf("the Parquet file can't be read: %v", err), Hint: exportHint}
	}
	if err != nil {
		return f.damaged(err)
	}
	for _, group := range file.RowGroups() {
		if err := f.group(group, columns, batch); err != nil {
			return f.damaged(err)
		}
	}
	return nil
}

func (f *File) group(group parquet.RowGroup, columns []Column, batch func(n int) error) (err error) {
	chunks := group.ColumnChunks()
	for i := range columns {
		c := &columns[i]
		c.values = parquet.NewColumnChunkValueReader(chunks[f.leaves[c.At]])
		defer func() { err = errors.Join(err, c.values.Close()) }()
	}
	room := make([]parquet.Value, parquetRows)
	for left := group.NumRows(); left > 0; left -= parquetRows {
		n := int(min(left, parquetRows))
		for i := range columns {
			if err := columns[i].read(room[:n]); err != nil {
				return fmt.Errorf("column %s: %w", columns[i].Name, err)
			}
		}
		if err := batch(n); err != nil {
			return err
		}
	}
	return nil
}

func (c *Column) read(room []parquet.Value) error {
	for at := 0; at < len(room); {
		got, err := c.values.ReadValues(room[at:])
		if errors.Is(err, io.EOF) && got == 0 {
			return errors.New("it ends early")
		}
		if err != nil && got == 0 {
			return err
		}
		for i, v := range room[at : at+got] {
			if err := c.Take(at+i, v); err != nil {
				return err
			}
		}
		at += got
	}
	return nil
}
