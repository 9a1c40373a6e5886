// Package lazymemory is the memory of simulated devices: its content exists once somebody
// writes or reads it, so a buffer of gigabytes costs nothing until then.
package lazymemory

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Memory is a stretch of memory, all zeros at first. It is what a [kernels.Buffer] needs but
// for the filling with numbers, which devices do in their own ways.
type Memory struct {
	bytes   int64
	content []byte             // nil until it is needed
	fill    func([]byte) error // what the content then begins as; nil for zeros
	closed  bool
}

// New is a memory of so many bytes.
func New(bytes int64) Memory { return Memory{bytes: bytes} }

// Bytes is the size.
func (m *Memory) Bytes() int64 { return m.bytes }

// CheckFill returns an error when n elements of a type do not fit.
func (m *Memory) CheckFill(d kernels.DType, n int64) error {
	if size := int64(d.Size()); size == 0 || n < 0 || n > m.bytes/size {
		return fmt.Errorf("fill of %d elements of %s into %d bytes", n, d, m.bytes)
	}
	return nil
}

// FillWith has fill write the content: at once where there is one, else when it is needed.
func (m *Memory) FillWith(fill func([]byte) error) error {
	if m.content != nil {
		return fill(m.content)
	}
	m.fill = fill
	return nil
}

// Within returns an error unless [off, off+n) lies in memory that is not freed, and is not empty.
func (m *Memory) Within(off, n int64) error {
	switch {
	case m.closed:
		return fmt.Errorf("access to a buffer of %d bytes that is closed", m.bytes)
	case n < 1 || off < 0 || off > m.bytes || n > m.bytes-off:
		return fmt.Errorf("access to %d bytes at %d of a buffer of %d", n, off, m.bytes)
	}
	return nil
}

// within brings the content into being and checks that [off, off+n) lies in it.
func (m *Memory) within(off int64, n int) error {
	if off < 0 || off > m.bytes || int64(n) > m.bytes-off {
		return fmt.Errorf("access to %d bytes at %d of a buffer of %d", n, off, m.bytes)
	}
	if m.content == nil {
		m.content = make([]byte, m.bytes)
		if m.fill != nil {
			return m.fill(m.content)
		}
	}
	return nil
}

// Upload implements [kernels.Buffer].
func (m *Memory) Upload(off int64, src []byte) error {
	if err := m.within(off, len(src)); err != nil {
		return err
	}
	copy(m.content[off:], src)
	return nil
}

// Download implements [kernels.Buffer].
func (m *Memory) Download(off int64, dst []byte) error {
	if err := m.within(off, len(dst)); err != nil {
		return err
	}
	copy(dst, m.content[off:])
	return nil
}

// Close marks the memory as freed; a second time is an error.
func (m *Memory) Close() error {
	if m.closed {
		return fmt.Errorf("buffer of %d bytes closed twice", m.bytes)
	}
	m.closed = true
	return nil
}
