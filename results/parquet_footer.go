package results

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The decoder of Parquet makes room for as many elements of a list as the file says that there are. So the metadata at the end
// of a file is walked before it is decoded: Thrift's compact protocol, in which each element takes a byte at least.

const (
	// mostFooter bounds the metadata of a file: that of an export is 20 KB.
	mostFooter = 4 << 20
	// mostElements bounds each list in it: columns, groups of lines, words.
	mostElements = 1 << 16
	// mostNesting bounds structures within structures: those of Parquet's metadata are six deep.
	mostNesting = 16
)

var errFooter = errors.New("its metadata is cut short")

// checkFooter refuses a Parquet file whose metadata holds lists that it has no room for.
func checkFooter(r io.ReaderAt, size int64) error {
	const tail = 8 // the length of the metadata, and the mark of the format
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

// footerWalk is what is left of the metadata.
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

// Types of values in Thrift's compact protocol.
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

// structure walks over a structure: fields up to a stop.
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
			continue // the value is the type
		}
		if err := w.value(kind, depth); err != nil {
			return err
		}
	}
}

// value walks over a value of a type.
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

// elements walks over n times a value of each type.
func (w *footerWalk) elements(n uint64, depth int, kinds ...byte) error {
	if n > uint64(len(w.b)) || n > mostElements {
		return fmt.Errorf("a list of %d in metadata of which %d bytes are left", n, len(w.b))
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
