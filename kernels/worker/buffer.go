package worker

import (
	"encoding/base64"
	"fmt"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Buffer is a device's buffer that workers can use.
type Buffer interface {
	kernels.Buffer
	// Mirror returns the buffer's own record of the workers' copies.
	Mirror() *Mirror
}

// InHostMemory is implemented by buffers of host memory. Workers have copies of them.
type InHostMemory interface {
	Buffer
	// Content is the memory itself; nil once closed.
	Content() []byte
}

// Mappable is implemented by buffers that another process can map.
type Mappable interface {
	Buffer
	// Handle returns a handle of the allocation that contains the buffer, and the buffer's offset in it.
	Handle() (handle []byte, offset int64, err error)
}

// Mirror is a worker's copy of a buffer. The zero value is ready: no worker has one.
type Mirror struct {
	w          *Worker
	id         int64
	generation int
	// edition counts changes by the host, sent those that the worker has.
	edition, sent int64
	newer         bool // the worker's copy is newer
}

// Changed is called when the host has changed the content.
func (m *Mirror) Changed() { m.edition++ }

// Overwritten is called before a launch of this process, which may write to the buffer.
func (m *Mirror) Overwritten() { m.newer = false }

// Fetch brings the content up to date before the host reads or changes it.
func (m *Mirror) Fetch(b InHostMemory) error {
	if !m.newer {
		return nil
	}
	m.newer = false
	if m.w.p == nil || m.generation != m.w.generation {
		return fmt.Errorf("the result is lost: worker %s has ended", m.w.name)
	}
	to := b.Content()
	for at := 0; at < len(to); at += windowBytes {
		n := min(windowBytes, len(to)-at)
		if err := m.w.ask("read", moveParams{Buffer: m.id, Offset: int64(at), Bytes: int64(n)}, nil); err != nil {
			return err
		}
		copy(to[at:at+n], m.w.p.window.data[:n])
	}
	return nil
}

// Release is called when the buffer is closed.
func (m *Mirror) Release() {
	if m.w != nil && m.generation == m.w.generation {
		m.w.closing.add(func(c *closeParams) { c.Buffers = append(c.Buffers, m.id) })
	}
	*m = Mirror{}
}

// open gives a worker a buffer with its content, as steps of its set-up.
func (w *Worker) open(o kernels.Operand) (int64, error) {
	b, ok := o.Buffer.(Buffer)
	if !ok {
		return 0, fmt.Errorf("its buffer is a %T, not one of %s", o.Buffer, w.set.host.Device.Spec().ID)
	}
	m := b.Mirror()
	if m.w != nil && m.w != w {
		if h, ok := b.(InHostMemory); ok {
			if err := m.Fetch(h); err != nil {
				return 0, err
			}
		}
		m.Release()
	}
	if m.w == nil || m.generation != w.generation {
		params := openParams{Buffer: w.id(), Bytes: b.Bytes()}
		if w.memory == ipcMemory {
			mappable, ok := b.(Mappable)
			if !ok {
				return 0, fmt.Errorf("its buffer is a %T, which another process can't map", b)
			}
			handle, offset, err := mappable.Handle()
			if err != nil {
				return 0, err
			}
			params.Handle, params.Offset = base64.StdEncoding.EncodeToString(handle), offset
		}
		*m = Mirror{w: w, id: params.Buffer, generation: w.generation, edition: m.edition, sent: -1}
		if err := w.setup.add(w, "open", params, nil, m.Release); err != nil {
			return 0, err
		}
	}
	h, ok := b.(InHostMemory)
	if !ok || m.sent == m.edition {
		return m.id, nil
	}
	m.sent = m.edition
	from := h.Content()
	for at := 0; at < len(from); {
		window, start, err := w.setup.window(w)
		if err != nil {
			m.sent = -1
			return 0, err
		}
		n := copy(window, from[at:])
		w.setup.filled += n
		params := moveParams{Buffer: m.id, Offset: int64(at), Bytes: int64(n), Window: int64(start)}
		if err := w.setup.add(w, "write", params, nil, func() { m.sent = -1 }); err != nil {
			return 0, err
		}
		at += n
	}
	return m.id, nil
}

// closing collects what a worker can forget. Cleanups of other goroutines add to it.
type closing struct {
	mu  sync.Mutex
	all closeParams
}

func (c *closing) add(f func(*closeParams)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.all)
}

func (c *closing) take() (all closeParams, some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, c.all = c.all, closeParams{}
	return all, len(all.Buffers)+len(all.Weights)+len(all.Launches) > 0
}

// join adds what other has.
func (c *closeParams) join(other closeParams) {
	c.Launches = append(c.Launches, other.Launches...)
	c.Weights = append(c.Weights, other.Weights...)
	c.Buffers = append(c.Buffers, other.Buffers...)
}

// forget tells the worker what is closed, as a step of its set-up.
func (w *Worker) forget() error {
	all, some := w.closing.take()
	if !some {
		return nil
	}
	return w.setup.add(w, "close", all, nil, func() { w.closing.add(func(c *closeParams) { c.join(all) }) })
}
