package parquetfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The Parquet decoder allocates lists by the length that the file declares. The metadata is therefore walked
// first, in Thrift's compact protocol, where each element takes at least a byte.

const (
	// mostFooter limits a file's metadata; an export's has 20 KB.
	mostFooter = 4 << 20
	// mostElements limits each of its lists: columns, row groups, texts.
	mostElements = 1 << 16
	// mostNesting limits nested structures; Parquet's metadata has six levels.
	mostNesting = 16
)

var errFooter = errors.New("its metadata is cut short")

// checkFooter refuses a Parquet file whose metadata declares lists longer than itself.
func checkFooter(r io.ReaderAt, size int64) error {
	const tail = 8 // the metadata's length and the format's magic bytes
	var end [tail]byte
	if size < tail {
		return errors.New("it is too short")
	}
	if _, err := r.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	if string(end[4:]) != parquetMark {
		return errors.New("it does not end as one")
	}
	n := int64(binary.LittleEndian.Uint32(end[:4]))
	if n > size-tail || n > mostFooter {
		return fmt.Errorf("metadata of %d bytes in a file of %d", n, size)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-tail-n); err != nil {
		return err
	}
	w := footerWalk{b: b}
	return w.structure(0)
}

type footerWalk struct{ b []byte }

func (w *footerWalk) byte() (byte, error) {
	if len(w.b) == 0 {
		return 0, errFooter
	}
	x := w.b[0]
	w.b = w.b[1:]
	return x, nil
}

func (w *footerWalk) varint() (uint64, error) {
	x, n := binary.Uvarint(w.b)
	if n <= 0 {
		return 0, errFooter
	}
	w.b = w.b[n:]
	return x, nil
}

func (w *footerWalk) skip(n uint64) error {
	if n > uint64(len(w.b)) {
		return errFooter
	}
	w.b = w.b[n:]
	return nil
}

// Value types of Thrift's compact protocol.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt64  = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

func (w *footerWalk) structure(depth int) error {
	if depth > mostNesting {
		return errors.New("its metadata is nested too deeply")
	}
	for {
		head, err := w.byte()
		if err != nil {
			return err
		}
		kind := head & 0xf
		if kind == thriftStop {
			return nil
		}
		if head>>4 == 0 { // the field's number follows
			if _, err = w.varint(); err != nil {
				return err
			}
		}
		if kind == thriftTrue || kind == thriftFalse {
			continue // the type encodes the value
		}
		if err := w.value(kind, depth); err != nil {
			return err
		}
	}
}

func (w *footerWalk) value(kind byte, depth int) error {
	switch {
	case kind == thriftTrue || kind == thriftFalse || kind == thriftByte:
		return w.skip(1)
	case kind > thriftByte && kind <= thriftInt64:
		_, err := w.varint()
		return err
	case kind == thriftDouble:
		return w.skip(8)
	case kind == thriftUUID:
		return w.skip(16)
	case kind == thriftBinary:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case kind == thriftList || kind == thriftSet:
		head, err := w.byte()
		if err != nil {
			return err
		}
		n := uint64(head >> 4)
		if n == 15 {
			if n, err = w.varint(); err != nil {
				return err
			}
		}
		return w.elements(n, depth, head&0xf)
	case kind == thriftMap:
		n, err := w.varint()
		if err != nil || n == 0 {
			return err
		}
		kinds, err := w.byte()
		if err != nil {
			return err
		}
		return w.elements(n, depth, kinds>>4, kinds&0xf)
	case kind == thriftStruct:
		return w.structure(depth + 1)
	}
	return fmt.Errorf("its metadata has a value of type %d", kind)
}

func (w *footerWalk) elements(n uint64, depth int, kinds ...byte) error {
	if n > uint64(len(w.b)) || n > mostElements {
		return fmt.Errorf("a list of %d in metadata with %d bytes left", n, len(w.b))
	}
	for range n {
		for _, kind := range kinds {
			if err := w.value(kind, depth); err != nil {
				return err
			}
		}
	}
	return nil
}
