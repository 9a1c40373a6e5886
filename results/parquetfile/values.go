package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// The Parquet decoder allocates as many values as a run, block or dictionary declares: five bytes can declare
// 2^31. These counts are therefore compared with a page's lines before decoding.

const (
	// mostPadding is the number of extra values that the last run may hold: encoders pad to whole blocks.
	mostPadding = 1 << 10
	// mostDeltaBlock limits the values of a delta block; encoders write 128.
	mostDeltaBlock = 1 << 16
)

var errValues = errors.New("its values are cut short")

// checkPage refuses a page that declares more values than left lines, or encodes more than it declares. It
// returns the page's lines, 0 for a dictionary. body is the whole page, decompressed.
func checkPage(h *format.PageHeader, body []byte, c *parquet.Column, left int64) (lines int64, err error) {
	switch h.Type {
	case format.DictionaryPage:
		d := h.DictionaryPageHeader
		if !d.Valid || d.V.Encoding != format.Plain && d.V.Encoding != format.PlainDictionary {
			return 0, fmt.Errorf("a dictionary in encoding %v: %w", d.V.Encoding, errNotSupported)
		}
		n := int64(d.V.NumValues)
		if c.Type().Kind() == parquet.FixedLenByteArray && n > 0 && int64(c.Type().Length()) > int64(len(body))/n {
			return 0, errValues
		}
		return 0, checkCount(n, int64(len(body)), "values in a dictionary, whose bytes are")
	case format.DataPage:
		d := h.DataPageHeader
		if !d.Valid {
			return 0, errors.New("a page without its header")
		}
		n := int64(d.V.NumValues)
		if err := checkCount(n, left, "values in a page, lines left are"); err != nil {
			return 0, err
		}
		if c.MaxDefinitionLevel() > 0 {
			if d.V.DefinitionLevelEncoding != format.RLE {
				return 0, fmt.Errorf("levels in encoding %v: %w", d.V.DefinitionLevelEncoding, errNotSupported)
			}
			levels, rest, err := prefixed(body)
			if err != nil {
				return 0, err
			}
			if err := checkRuns(levels, 1, n); err != nil {
				return 0, err
			}
			body = rest
		}
		return n, checkValues(d.V.Encoding, body, c.Type().Kind(), n)
	case format.DataPageV2:
		d := h.DataPageHeaderV2
		if !d.Valid {
			return 0, errors.New("a page without its header")
		}
		n := int64(d.V.NumValues)
		if err := checkCount(n, left, "values in a page, lines left are"); err != nil {
			return 0, err
		}
		if err := checkCount(int64(d.V.NumNulls), n, "nulls in a page, its values are"); err != nil {
			return 0, err
		}
		from, levels := int(d.V.RepetitionLevelsByteLength), int(d.V.DefinitionLevelsByteLength) // checked by the caller
		if c.MaxDefinitionLevel() > 0 {
			if err := checkRuns(body[from:from+levels], 1, n); err != nil {
				return 0, err
			}
		}
		return n, checkValues(d.V.Encoding, body[from+levels:], c.Type().Kind(), n)
	}
	return 0, fmt.Errorf("a page of type %v: %w", h.Type, errNotSupported)
}

func checkCount(n, most int64, of string) error {
	if n < 0 || n > most {
		return fmt.Errorf("%d %s %d", n, of, most)
	}
	return nil
}

func checkValues(e format.Encoding, b []byte, kind parquet.Kind, n int64) error {
	if len(b) == 0 {
		return nil // all are null
	}
	switch e {
	case format.Plain:
		return nil
	case format.PlainDictionary, format.RLEDictionary:
		if b[0] > 32 {
			return fmt.Errorf("indices of %d bits", b[0])
		}
		return checkRuns(b[1:], int(b[0]), n)
	case format.RLE:
		if kind != parquet.Boolean {
			break
		}
		runs, _, err := prefixed(b)
		if err != nil {
			return err
		}
		return checkRuns(runs, 1, n)
	case format.DeltaBinaryPacked:
		if kind != parquet.Int32 && kind != parquet.Int64 {
			break
		}
		return checkDelta(b, n)
	case format.DeltaLengthByteArray:
		if kind != parquet.ByteArray {
			break
		}
		return checkDelta(b, n)
	case format.ByteStreamSplit:
		if kind == parquet.FixedLenByteArray {
			break
		}
		return nil
	}
	// For example DELTA_BYTE_ARRAY: each value can repeat the previous one, so values grow with the square of
	// the page.
	return fmt.Errorf("encoding %v of %v: %w", e, kind, errNotSupported)
}

func prefixed(b []byte) (of, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errValues
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, errValues
	}
	return b[:n], b[n:], nil
}

// checkRuns walks Parquet's hybrid of run lengths and packed values of width bits and refuses more than n
// values.
func checkRuns(b []byte, width int, n int64) error {
	most := uint64(n + mostPadding)
	for total := uint64(0); len(b) > 0; {
		head, used := binary.Uvarint(b)
		if used <= 0 {
			return errValues
		}
		b = b[used:]
		count, bytes := head>>1, uint64(width+7)/8
		if head&1 != 0 { // count groups of eight
			if count > most {
				return fmt.Errorf("a run of %d times 8 values in a page of %d", count, n)
			}
			count, bytes = 8*count, count*uint64(width)
		}
		if count > most-total {
			return fmt.Errorf("a run of %d values in a page of %d", count, n)
		}
		total += count
		b = b[min(bytes, uint64(len(b))):] // some encoders cut the last run short
	}
	return nil
}

func checkDelta(b []byte, n int64) error {
	var head [3]uint64 // values per block, parts per block, values
	for i := range head {
		x, used := binary.Uvarint(b)
		if used <= 0 {
			return errValues
		}
		head[i], b = x, b[used:]
	}
	if head[0] > mostDeltaBlock || head[2] > uint64(n) {
		return fmt.Errorf("%d values in blocks of %d, in a page of %d", head[2], head[0], n)
	}
	return nil
}
