package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The Parquet decoder does not limit a page's decompressed size. The columns to read are therefore first
// decompressed here, within limits that follow from the file's size, and the decoder gets an uncompressed
// copy.

const (
	// A decompressed file may have leastUnpacked bytes plus mostInflated per byte of the file, at most
	// mostUnpacked. Exports have 3 to 20 times their size.
	leastUnpacked = 16 << 20
	mostInflated  = 64
	mostUnpacked  = 1 << 30
	// A file may have leastRows lines plus one per byte, at most mostParquetRows: times and clocks take
	// several bytes per line.
	leastRows = 1 << 17
	// mostPageHeader limits a page's header, which holds the page's least and greatest values.
	mostPageHeader = 64 << 10
)

const parquetMark = "PAR1"

func mostRows(size int64) int64 { return min(leastRows+size, mostParquetRows) }

// unpackParquet copies a file, with the pages of the columns in read decompressed and checked. An
// errNotSupported error means that the file may be valid.
func unpackParquet(in io.ReaderAt, size int64, file *parquet.File, read map[string]int) (*parquet.File, error) {
	u := unpacker{in: in, size: size, left: size, most: min(leastUnpacked+mostInflated*size, mostUnpacked)}
	u.out.WriteString(parquetMark)
	leaves := map[int]*parquet.Column{}
	for _, c := range file.Root().Columns() {
		if c.Leaf() {
			leaves[c.Index()] = c
		}
	}
	meta := *file.Metadata()
	if meta.EncryptionAlgorithm.Value != nil {
		return nil, fmt.Errorf("encryption: %w", errNotSupported)
	}
	for _, group := range meta.RowGroups {
		for _, name := range slices.Sorted(maps.Keys(read)) {
			at := read[name]
			if at >= len(group.Columns) {
				return nil, fmt.Errorf("column %s is missing in a group of lines", name)
			}
			if err := u.column(&group.Columns[at], leaves[at], group.NumRows); err != nil {
				return nil, fmt.Errorf("column %s: %w", name, err)
			}
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		return nil, err
	}
	u.out.Write(footer)
	u.out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	u.out.WriteString(parquetMark)
	return parquet.OpenFile(bytes.NewReader(u.out.Bytes()), int64(u.out.Len()), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
}

type unpacker struct {
	in   io.ReaderAt
	size int64
	// left is the bytes not yet copied, since columns must not share bytes. most limits out.
	left, most int64
	out        bytes.Buffer
	chunk      []byte
}

func (u *unpacker) tooMuch() error {
	return fmt.Errorf("the columns take more than %d bytes decompressed, in a file of %d", u.most, u.size)
}

// column copies a column's pages and updates its metadata to the copy.
func (u *unpacker) column(chunk *format.ColumnChunk, c *parquet.Column, rows int64) error {
	if chunk.CryptoMetadata.Value != nil || chunk.FilePath != "" {
		return fmt.Errorf("encryption, or data in another file: %w", errNotSupported)
	}
	m := &chunk.MetaData
	first, n := m.DataPageOffset, m.TotalCompressedSize
	if d := m.DictionaryPageOffset; d > 0 {
		first = min(first, d)
	}
	if first < 0 || n < 0 || n > u.left || first > u.size-n {
		return fmt.Errorf("%d bytes at %d in a file of %d, with %d not in another column", n, first, u.size, u.left)
	}
	u.left -= n
	if int64(cap(u.chunk)) < n {
		u.chunk = make([]byte, n)
	}
	b := u.chunk[:n]
	if _, err := u.in.ReadAt(b, first); err != nil {
		return err
	}
	start := u.out.Len()
	m.DictionaryPageOffset, m.DataPageOffset = 0, int64(start)
	for dictionary := false; len(b) > 0; {
		h, body, rest, err := u.page(b, m.Codec)
		if err != nil {
			return err
		}
		b = rest
		if h.Type == format.IndexPage {
			continue
		}
		lines, err := checkPage(h, body, c, rows)
		if err != nil {
			return err
		}
		rows -= lines
		at := u.out.Len()
		if err := u.write(h, body); err != nil {
			return err
		}
		switch {
		case h.Type != format.DictionaryPage:
		case dictionary || at != start:
			return errors.New("a dictionary that is not the first page")
		default:
			dictionary = true
			m.DictionaryPageOffset, m.DataPageOffset = int64(at), int64(u.out.Len())
		}
	}
	m.Codec = format.Uncompressed
	m.TotalCompressedSize = int64(u.out.Len() - start)
	m.TotalUncompressedSize = m.TotalCompressedSize
	return nil
}

func (u *unpacker) page(b []byte, codec format.CompressionCodec) (h *format.PageHeader, body, rest []byte, err error) {
	w := footerWalk{b: b[:min(len(b), mostPageHeader)]}
	if err := w.structure(0); err != nil {
		return nil, nil, nil, fmt.Errorf("the header of a page: %w", err)
	}
	head := min(len(b), mostPageHeader) - len(w.b)
	h = new(format.PageHeader)
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), b[:head], h); err != nil {
		return nil, nil, nil, fmt.Errorf("the header of a page: %w", err)
	}
	b = b[head:]
	packed, unpacked := int64(h.CompressedPageSize), int64(h.UncompressedPageSize)
	if packed < 0 || packed > int64(len(b)) || unpacked < 0 {
		return nil, nil, nil, fmt.Errorf("a page of %d bytes, %d decompressed: %d bytes of the column are left", packed, unpacked, len(b))
	}
	if left := u.most - int64(u.out.Len()); unpacked > left {
		return nil, nil, nil, u.tooMuch()
	}
	body, rest = b[:packed], b[packed:]
	if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(body) {
		return nil, nil, nil, errors.New("a page does not have its checksum")
	}
	levels := 0
	if d := h.DataPageHeaderV2; h.Type == format.DataPageV2 && d.Valid {
		r, f := int64(d.V.RepetitionLevelsByteLength), int64(d.V.DefinitionLevelsByteLength)
		if r < 0 || f < 0 || r+f > packed || r+f > unpacked {
			return nil, nil, nil, fmt.Errorf("levels of %d and %d bytes in a page of %d", r, f, packed)
		}
		levels = int(r + f) // they are not compressed
		if d.V.IsCompressed.Valid && !d.V.IsCompressed.V {
			codec = format.Uncompressed
		}
	}
	if codec != format.Uncompressed {
		if body, err = decompress(bytes.Clone(body[:levels]), codec, body[levels:], int(unpacked)-levels); err != nil {
			return nil, nil, nil, fmt.Errorf("a page of %d bytes, %d decompressed: %w", packed, unpacked, err)
		}
	}
	return h, body, rest, nil
}

func (u *unpacker) write(h *format.PageHeader, body []byte) error {
	h.CompressedPageSize, h.UncompressedPageSize, h.CRC = int32(len(body)), int32(len(body)), 0
	h.DataPageHeader.V.Statistics, h.DataPageHeaderV2.V.Statistics = format.Statistics{}, format.Statistics{}
	if h.DataPageHeaderV2.Valid {
		h.DataPageHeaderV2.V.IsCompressed = thrift.New(false)
	}
	head, err := thrift.Marshal(new(thrift.CompactProtocol), h)
	if err != nil {
		return err
	}
	u.out.Write(head)
	u.out.Write(body)
	if int64(u.out.Len()) > u.most {
		return u.tooMuch()
	}
	return nil
}
