//go:build cuda

package cuda

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// graphs keeps blocks as CUDA graphs from round to round.
type graphs struct {
	kept  map[string]*capture
	nodes int
	uses  int
}

// capture is a block as graphs in sequence.
type capture struct {
	graphs []kernels.Launch
	nodes  int // of distinct graphs
	used   int
}

const (
	// A long block is as many graphs: a shorter one is captured sooner, and the gap between two of a millisecond is too
	// short to matter. A block of few launches is one graph. A worker does the same.
	chunks                = 5
	leastChunk, mostChunk = 64, 480
	// mostNodes bounds the nodes of kept graphs: about 1 KB each of the driver's memory.
	mostNodes = 200_000
)

// of returns the graphs of a block, which run its launches in sequence.
func (g *graphs) of(d *driver.Device, block kernels.Block) ([]kernels.Launch, error) {
	launches := rotated(block.Launches[:min(len(block.Launches), block.N)], block.N)
	key := keyOf(launches, block.N)
	g.uses++
	if have := g.kept[key]; have != nil {
		have.used = g.uses
		return have.graphs, nil
	}
	chunk := min(block.N, max(min(mostChunk, max(leastChunk, (block.N+chunks-1)/chunks)), len(launches)))
	chunk -= chunk % min(chunk, len(launches)) // whole rotations, so that all graphs but the last are one
	c := &capture{used: g.uses}
	make := func(n int) (kernels.Launch, error) {
		all := make([]kernels.Launch, n)
		for i := range all {
			all[i] = launches[i%len(launches)]
		}
		c.nodes += driver.Kernels(all)
		return d.SerialGraph(all)
	}
	whole, err := make(chunk)
	if err != nil {
		return nil, err
	}
	c.graphs = slices.Repeat([]kernels.Launch{whole}, block.N/chunk)
	if rest := block.N % chunk; rest > 0 {
		last, err := make(rest)
		if err != nil {
			return nil, err
		}
		c.graphs = append(c.graphs, last)
	}
	if g.kept == nil {
		g.kept = map[string]*capture{}
	}
	g.kept[key] = c
	g.nodes += c.nodes
	return c.graphs, g.trim(key)
}

// trim closes the graphs that were not used for the longest time, except those of a key.
func (g *graphs) trim(except string) error {
	var errs []error
	for g.nodes > mostNodes && len(g.kept) > 1 {
		oldest := ""
		for key, c := range g.kept {
			if key != except && (oldest == "" || c.used < g.kept[oldest].used) {
				oldest = key
			}
		}
		c := g.kept[oldest]
		delete(g.kept, oldest)
		g.nodes -= c.nodes
		for i, l := range c.graphs {
			if i == 0 || l != c.graphs[i-1] {
				errs = append(errs, l.(io.Closer).Close())
			}
		}
	}
	return errors.Join(errs...)
}

// rotated starts a whole rotation at one launch wherever it was entered, so that all its blocks share a graph.
func rotated(launches []kernels.Launch, n int) []kernels.Launch {
	if n < len(launches) || len(launches) < 2 {
		return launches
	}
	first := 0
	for i, l := range launches {
		// Launches of a product in several parts repeat: begin at one like the first.
		if planOf(l) == planOf(launches[0]) && addressOf(l) < addressOf(launches[first]) {
			first = i
		}
	}
	return slices.Concat(launches[first:], launches[:first])
}

func planOf(l kernels.Launch) string {
	if own, ok := l.(*driver.Launch); ok {
		return own.Plan
	}
	return ""
}

func addressOf(l kernels.Launch) uintptr {
	own, _ := l.(*driver.Launch)
	return uintptr(unsafe.Pointer(own))
}

func keyOf(launches []kernels.Launch, n int) string {
	key := binary.LittleEndian.AppendUint64(nil, uint64(n))
	for _, l := range launches {
		key = binary.LittleEndian.AppendUint64(key, uint64(addressOf(l)))
	}
	return string(key)
}
