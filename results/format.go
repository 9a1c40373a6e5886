package results

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

const (
	DamagedHint = "use a copy of the run, or measure again"
	foreignHint = "expected a run file as gemmaudit sweep and gemmaudit import write it"
	upgradeHint = "upgrade gemmaudit to read this run"
	csvHint     = "this looks like text; gemmaudit import turns a CSV into a run"
)

// header is the first 100 bytes of an SQLite file. Offsets are from
// https://sqlite.org/fileformat2.html#the_database_header.
type header struct {
	pageSize int64
	pages    int64 // 0 if the file does not guarantee it
	wal      bool  // the file is in write-ahead mode
	schema   uint32
	size     int64 // of the file
}

var sqliteMagic = []byte("SQLite format 3\x00")

// readHeader checks without the database that a file is a run of a readable version. All errors are
// [FormatError].
func readHeader(path string) (header, error) {
	// Before opening: opening a pipe waits for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return header{}, fmt.Errorf("open run %q: %w", path, bare(err))
	}
	if info.IsDir() {
		return header{}, &FormatError{Path: path, Reason: "is a folder, not a run", Hint: foreignHint}
	}
	if !info.Mode().IsRegular() {
		return header{}, &FormatError{Path: path, Reason: "is a pipe or a device, not a run", Hint: foreignHint}
	}
	f, err := regular.Open(path)
	if err != nil {
		return header{}, fmt.Errorf("open run %q: %w", path, bare(err))
	}
	defer f.Close()
	b := make([]byte, 100)
	n, err := io.ReadFull(f, b)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return header{}, fmt.Errorf("open run %q: %w", path, err)
	}
	return parseHeader(path, b[:n], info.Size())
}

// bare returns a file system error without call and path, which the outer errors name.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func parseHeader(path string, b []byte, size int64) (header, error) {
	fail := func(hint, format string, args ...any) (header, error) {
		return header{}, &FormatError{Path: path, Reason: fmt.Sprintf(format, args...), Hint: hint}
	}
	if size == 0 {
		return fail(foreignHint, "the file is empty")
	}
	if !bytes.HasPrefix(b, sqliteMagic) {
		if len(b) < len(sqliteMagic) && bytes.HasPrefix(sqliteMagic, b) {
			return fail(DamagedHint, "the run is truncated: %d bytes, less than its header", size)
		}
		if isText(b) {
			return fail(csvHint, "not a run: it begins with %.20q", b)
		}
		return fail(foreignHint, "not a run: it begins with % x", b[:min(len(b), 8)])
	}
	if len(b) < 100 {
		return fail(DamagedHint, "the run is truncated: %d bytes, less than its header", size)
	}
	u32 := func(off int) uint32 { return binary.BigEndian.Uint32(b[off:]) }
	if id := u32(68); id != applicationID {
		return fail(foreignHint, "an SQLite file, but not a run: its application id is %#08x, a run's is %#08x", id, applicationID)
	}
	h := header{schema: u32(60), size: size, wal: b[18] == 2}
	if err := checkSchema(path, int64(h.schema)); err != nil {
		return header{}, err
	}
	h.pageSize = int64(binary.BigEndian.Uint16(b[16:]))
	if h.pageSize == 1 {
		h.pageSize = 65536
	}
	if h.pageSize < 512 || h.pageSize&(h.pageSize-1) != 0 {
		return fail(DamagedHint, "the run is damaged: its page size is %d", h.pageSize)
	}
	// The page count is valid only if the two counters are equal.
	if u32(24) == u32(92) {
		h.pages = int64(u32(28))
	}
	return h, nil
}

func checkSchema(path string, schema int64) error {
	switch {
	case schema > SchemaVersion:
		return &FormatError{Path: path, Hint: upgradeHint,
			Reason: fmt.Sprintf("the run has schema version %d, this program reads up to version %d", schema, SchemaVersion)}
	case schema < 1:
		return &FormatError{Path: path, Hint: DamagedHint,
			Reason: fmt.Sprintf("the run has schema version %d, expected 1 to %d", schema, SchemaVersion)}
	}
	return nil
}

// missing returns the number of bytes that the header promises and the file lacks.
func (h header) missing() int64 { return max(0, h.pages*h.pageSize-h.size) }

func (h header) odd() bool {
	return h.size%h.pageSize != 0 || (h.pages > 0 && h.pages*h.pageSize != h.size)
}

func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}
