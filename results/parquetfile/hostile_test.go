package parquetfile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/gemmaudit/gemmaudit/results"
)

// rawPage is a page's header and content, which may contradict each other.
type rawPage struct {
	header format.PageHeader
	body   []byte
}

type rawColumn struct {
	name     string
	kind     format.Type
	optional bool
	codec    format.CompressionCodec
	pages    []rawPage
}

func rawParquet(t testing.TB, rows int64, columns []rawColumn) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(parquetMark)
	marshal := func(v any) []byte {
		out, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		must(t, err)
		return out
	}
	meta := format.FileMetaData{Version: 1, NumRows: rows,
		Schema: []format.SchemaElement{{Name: "schema", NumChildren: thrift.New(int32(len(columns)))}}}
	group := format.RowGroup{NumRows: rows}
	for _, c := range columns {
		repetition := format.Required
		if c.optional {
			repetition = format.Optional
		}
		meta.Schema = append(meta.Schema,
			format.SchemaElement{Name: c.name, Type: thrift.New(c.kind), RepetitionType: thrift.New(repetition)})
		m := format.ColumnMetaData{Type: c.kind, PathInSchema: []string{c.name}, Codec: c.codec, NumValues: rows,
			DataPageOffset: int64(b.Len()), Encoding: []format.Encoding{format.Plain}}
		start := b.Len()
		for _, p := range c.pages {
			p.header.CompressedPageSize = int32(len(p.body))
			b.Write(marshal(p.header))
			b.Write(p.body)
		}
		m.TotalCompressedSize = int64(b.Len() - start)
		m.TotalUncompressedSize = m.TotalCompressedSize
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: m})
	}
	meta.RowGroups = []format.RowGroup{group}
	footer := marshal(meta)
	b.Write(footer)
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	b.WriteString(parquetMark)
	return b.Bytes()
}

func dataPage(n int32, encoding format.Encoding, unpacked int, body []byte) rawPage {
	return rawPage{format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(unpacked),
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: n, Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}, body}
}

func repeated(n int, b ...byte) []byte { return bytes.Repeat(b, n) }

func plainWord(s string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(s))), s...)
}

func samplesOf(n int) []rawColumn {
	word := func(name, s string) rawColumn {
		body := bytes.Repeat(plainWord(s), n)
		return rawColumn{name: name, kind: format.ByteArray, pages: []rawPage{dataPage(int32(n), format.Plain, len(body), body)}}
	}
	number := func(name string, kind format.Type, of func(i int) uint64) rawColumn {
		var body []byte
		for i := range n {
			body = binary.LittleEndian.AppendUint64(body, of(i))
		}
		return rawColumn{name: name, kind: kind, pages: []rawPage{dataPage(int32(n), format.Plain, len(body), body)}}
	}
	const ten = 0x4024000000000000 // 10.0
	return []rawColumn{word("device", "cpu"), word("kernel", "blas"), word("dtype", "fp32"),
		number("m", format.Int64, func(i int) uint64 { return uint64(i + 1) }),
		number("n", format.Int64, func(int) uint64 { return 64 }), number("k", format.Int64, func(int) uint64 { return 64 }),
		number("us", format.Double, func(int) uint64 { return ten }), number("round", format.Int64, func(int) uint64 { return 0 })}
}

const (
	deviceColumn = 0
	mColumn      = 3
	usColumn     = 6
)

func compressed(t testing.TB, codec format.CompressionCodec, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch codec {
	case format.Snappy:
		return snappy.Encode(nil, b)
	case format.Gzip:
		w := gzip.NewWriter(&out)
		_, err := w.Write(b)
		must(t, err)
		must(t, w.Close())
	case format.Brotli:
		w := brotli.NewWriterLevel(&out, 3)
		_, err := w.Write(b)
		must(t, err)
		must(t, w.Close())
	case format.Zstd:
		w, err := zstd.NewWriter(&out)
		must(t, err)
		_, err = w.Write(b) // a stream does not declare its length
		must(t, err)
		must(t, w.Close())
	case format.Lz4Raw:
		room := make([]byte, lz4.CompressBlockBound(len(b)))
		n, err := new(lz4.Compressor).CompressBlock(b, room)
		must(t, err)
		return room[:n]
	default:
		return b
	}
	return out.Bytes()
}

var codecs = []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.Lz4Raw}

// In pages of both versions.
func TestParquetCodecs(t *testing.T) {
	for _, codec := range codecs {
		for _, version := range []string{"v1", "v2", "v2 not compressed"} {
			t.Run(codec.String()+" "+version, func(t *testing.T) {
				const n = 50
				columns := samplesOf(n)
				for i := range columns {
					c := &columns[i]
					p := &c.pages[0]
					c.codec = codec
					if version != "v1" {
						p.header.Type, p.header.DataPageHeader = format.DataPageV2, thrift.Null[format.DataPageHeader]{}
						p.header.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{NumValues: n, NumRows: n, Encoding: format.Plain,
							IsCompressed: thrift.New(version == "v2")})
					}
					if version != "v2 not compressed" {
						p.body = compressed(t, codec, p.body)
					}
				}
				found, err := readBytes(t, rawParquet(t, n, columns))
				must(t, err)
				rows := found[0].Series[0].Rows
				if len(rows) != n {
					t.Fatalf("%d rows, want %d", len(rows), n)
				}
				for i, row := range rows {
					if row.Case.M != i+1 || row.Samples[0].US != 10 {
						t.Errorf("row %d: M %d, %v us", i, row.Case.M, row.Samples[0].US)
					}
				}
			})
		}
	}
}

// LZ4 blocks, with dictionaries without texts.
func TestParquetOfArrow(t *testing.T) {
	found, err := ReadRuns(filepath.Join("testdata", "parquet", "lz4-valid.parquet"))
	must(t, err)
	samples := 0
	for _, s := range found[0].Series {
		for _, row := range s.Rows {
			samples += len(row.Samples)
		}
	}
	if len(found) != 1 || found[0].Host == "" || samples+len(found[0].Sentinels) != 448 {
		t.Errorf("%d runs, host %q, %d samples and %d sentinels", len(found), found[0].Host, samples, len(found[0].Sentinels))
	}
}

func readBytes(t testing.TB, b []byte) ([]Run, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.parquet")
	must(t, os.WriteFile(path, b, 0o600))
	return ReadRuns(path)
}

func hostileParquet(t testing.TB) map[string][]byte {
	out := map[string][]byte{}
	const n = 100
	with := func(column int, change func(c *rawColumn)) []byte {
		columns := samplesOf(n)
		change(&columns[column])
		return rawParquet(t, n, columns)
	}
	// A page that declares 800 bytes, and pages that declare their true size.
	bomb := make([]byte, 16<<20)
	for _, codec := range codecs[1:] {
		packed := compressed(t, codec, bomb)
		out["bomb "+codec.String()] = with(usColumn, func(c *rawColumn) {
			c.codec = codec
			c.pages[0].body = packed
		})
		out["many pages of "+codec.String()] = with(usColumn, func(c *rawColumn) {
			c.codec = codec
			page := dataPage(0, format.Plain, len(bomb), packed)
			c.pages = []rawPage{page, page, page, page}
		})
		out["noise for "+codec.String()] = with(usColumn, func(c *rawColumn) {
			c.codec = codec
			c.pages[0].body = repeated(400, 0xf7, 0x31, 0x8a)
		})
	}
	run := func(count uint64, value ...byte) []byte { return append(binary.AppendUvarint(nil, count<<1), value...) }
	prefix := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
	out["levels"] = with(deviceColumn, func(c *rawColumn) {
		c.optional = true
		c.pages = []rawPage{dataPage(n, format.Plain, 0, prefix(run(1<<30, 0)))}
	})
	out["many runs of levels"] = with(deviceColumn, func(c *rawColumn) {
		c.optional = true
		c.pages = []rawPage{dataPage(n, format.Plain, 0, prefix(bytes.Repeat(run(1<<20, 0), 1000)))}
	})
	dictionary := func(values int32) rawPage {
		return rawPage{format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: 7,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: values, Encoding: format.Plain})}, plainWord("cpu")}
	}
	out["words of a dictionary"] = with(deviceColumn, func(c *rawColumn) {
		c.pages = []rawPage{dictionary(1<<31 - 1), dataPage(n, format.RLEDictionary, 3, append([]byte{1}, run(n, 0)...))}
	})
	out["indices"] = with(deviceColumn, func(c *rawColumn) {
		c.pages = []rawPage{dictionary(1), dataPage(n, format.RLEDictionary, 3, append([]byte{1}, run(1<<30, 0)...))}
	})
	out["indices of no bits"] = with(deviceColumn, func(c *rawColumn) {
		c.pages = []rawPage{dictionary(1), dataPage(n, format.RLEDictionary, 3, append([]byte{0}, binary.AppendUvarint(nil, 1<<28|1)...))}
	})
	out["delta"] = with(mColumn, func(c *rawColumn) {
		b := binary.AppendUvarint(nil, 1<<31)
		b = append(append(binary.AppendUvarint(b, 1), binary.AppendUvarint(nil, 1<<30)...), repeated(20, 0)...)
		c.pages = []rawPage{dataPage(n, format.DeltaBinaryPacked, len(b), b)}
	})
	out["lengths"] = with(deviceColumn, func(c *rawColumn) {
		b := binary.AppendUvarint(nil, 128)
		b = append(append(binary.AppendUvarint(b, 4), binary.AppendUvarint(nil, 1<<30)...), repeated(20, 0)...)
		c.pages = []rawPage{dataPage(n, format.DeltaLengthByteArray, len(b), b)}
	})
	out["prefixes"] = with(deviceColumn, func(c *rawColumn) { c.pages[0].header.DataPageHeader.V.Encoding = format.DeltaByteArray })
	out["values of a page"] = with(mColumn, func(c *rawColumn) { c.pages[0].header.DataPageHeader.V.NumValues = 1<<31 - 1 })
	out["lines"] = rawParquet(t, 1<<40, samplesOf(n))
	out["shared bytes"] = func() []byte { // all columns share bytes
		const lines = 1000
		columns := samplesOf(lines)
		b := rawParquet(t, lines, columns)
		footer := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
		var meta format.FileMetaData
		must(t, thrift.Unmarshal(new(thrift.CompactProtocol), b[len(b)-8-footer:len(b)-8], &meta))
		for i := range meta.RowGroups[0].Columns {
			m := &meta.RowGroups[0].Columns[i].MetaData
			m.DataPageOffset, m.TotalCompressedSize = 4, int64(len(b)-8-footer-4)
		}
		again, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
		must(t, err)
		b = append(b[:len(b)-8-footer], again...)
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(again))), parquetMark...)
	}()
	return out
}

// Refusing a file must take little memory.
func TestHostileParquet(t *testing.T) {
	hostile := hostileParquet(t)
	for _, name := range []string{"lz4-corrupt", "zstd-bomb"} {
		b, err := os.ReadFile(filepath.Join("testdata", "parquet", name+".parquet"))
		must(t, err)
		hostile[name] = b
	}
	for name, b := range hostile {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.parquet")
			must(t, os.WriteFile(path, b, 0o600))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := ReadRuns(path)
			runtime.ReadMemStats(&after)
			var f *results.FormatError
			if !errors.As(err, &f) {
				t.Errorf("%v, expected a FormatError", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > uint64(8*(leastUnpacked+mostInflated*len(b))) {
				t.Errorf("%d bytes of file took %d MB", len(b), took>>20)
			}
			t.Log(err)
		})
	}
}

// Valid but unsupported features must not be reported as damage.
func TestParquetFeatures(t *testing.T) {
	for want, change := range map[string]func(c *rawColumn){
		"compression LZ4: not supported": func(c *rawColumn) { c.codec = format.Lz4 },
		"DELTA_BYTE_ARRAY of BYTE_ARRAY: not supp": func(c *rawColumn) {
			c.pages[0].header.DataPageHeader.V.Encoding = format.DeltaByteArray
		},
	} {
		columns := samplesOf(3)
		change(&columns[deviceColumn])
		if _, err := readBytes(t, rawParquet(t, 3, columns)); err == nil || !strings.Contains(err.Error(), "column device: ") ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "damaged") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Names that a CSV must refuse with the same message: see package importing.
func TestParquetNames(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(columns []rawColumn) []rawColumn
		want   string
	}{
		{"twice", func(c []rawColumn) []rawColumn { return append(c, c[mColumn]) }, `column "m" stands twice in the header, at 4 and 9`},
		{"twice in two cases", func(c []rawColumn) []rawColumn {
			c = append(c, c[mColumn])
			c[len(c)-1].name = "M"
			return c
		}, `column "m" stands twice in the header, at 4 and 9`},
		{"no UTF-8", func(c []rawColumn) []rawColumn { return word(c, "c\xffu") }, "is not UTF-8 text"},
		{"control", func(c []rawColumn) []rawColumn { return word(c, "c\x1bu") }, "has a control character"},
		{"long", func(c []rawColumn) []rawColumn { return word(c, strings.Repeat("x", results.MaxText+1)) },
			"4097 bytes, expected at most 4096"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readBytes(t, rawParquet(t, 1, tt.change(samplesOf(1))))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func word(columns []rawColumn, s string) []rawColumn {
	body := plainWord(s)
	columns[1].pages = []rawPage{dataPage(1, format.Plain, len(body), body)}
	return columns
}
