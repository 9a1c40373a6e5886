package parquetfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

var (
	// errNotSupported marks a possibly valid Parquet file with an unsupported feature.
	errNotSupported = errors.New("not supported")
	// errTooLarge marks data that decompresses to more bytes than its header declares.
	errTooLarge = errors.New("decompresses to more bytes than its header declares")
)

// zstdDecoder never writes beyond its destination's capacity. It is safe for concurrent use.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
})

// decompress appends the decompressed packed to dst, at most most bytes, which are allocated at once: the
// caller limits most. An errNotSupported error names the compression.
func decompress(dst []byte, codec format.CompressionCodec, packed []byte, most int) ([]byte, error) {
	if most == 0 { // an encoder may write a few bytes for an empty page
		return dst, nil
	}
	at := len(dst)
	dst = append(dst, make([]byte, most)...)
	room := dst[at : at+most : at+most]
	n := 0
	var err error
	switch codec {
	case format.Uncompressed:
		if len(packed) > most {
			return nil, errTooLarge
		}
		n = copy(room, packed)
	case format.Snappy:
		if n, err = snappy.DecodedLen(packed); err == nil && n > most {
			err = errTooLarge
		}
		if err == nil {
			_, err = snappy.Decode(room, packed)
		}
	case format.Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(packed)); err == nil {
			n, err = readBounded(r, room)
		}
	case format.Brotli:
		n, err = readBounded(brotli.NewReader(bytes.NewReader(packed)), room)
	case format.Zstd:
		var d *zstd.Decoder
		if d, err = zstdDecoder(); err == nil {
			var out []byte
			if out, err = d.DecodeAll(packed, room[:0]); errors.Is(err, zstd.ErrDecoderSizeExceeded) {
				err = errTooLarge
			}
			if n = len(out); err == nil && n > 0 && &out[0] != &room[0] {
				n = copy(room, out)
			}
		}
	case format.Lz4Raw:
		n, err = lz4.UncompressBlock(packed, room)
	default:
		err = fmt.Errorf("compression %v: %w", codec, errNotSupported)
	}
	if err != nil {
		return nil, err
	}
	return dst[:at+n], nil
}

// readBounded reads all of r, which must fit into room.
func readBounded(r io.Reader, room []byte) (int, error) {
	n, err := io.ReadFull(r, room)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	var more [1]byte
	if k, err := io.ReadFull(r, more[:]); k > 0 {
		return n, errTooLarge
	} else if err != io.EOF {
		return n, err
	}
	return n, nil
}
