//go:build cuda

package driver

/*
#include <stdlib.h>
#include <string.h>
#include "step.h"

// joined returns the steps of several launches, without their parameters, which stay where they are.
static ga_cuda_launch *joined(int count) {
  ga_cuda_launch *l = calloc(1, sizeof(ga_cuda_launch) + (size_t)count * sizeof(ga_cuda_step));
  if (l != NULL) l->count = count;
  return l;
}

static void join_at(ga_cuda_launch *to, int at, const ga_cuda_launch *from) {
  memcpy(&to->steps[at], from->steps, (size_t)from->count * sizeof(ga_cuda_step));
  to->launches += from->launches;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// MostJoined is the most kernels of a joined launch: a block is divided only between launches, and a stream queues about a
// thousand.
const MostJoined = 900

// joined is what launches of this device have in common that run as one.
type joined struct {
	parts         []*Launch
	steps, queued int
	plan          string
	library       func(code int) error // of the last that calls one
}

// gather checks launches that are to run as one.
func (d *Device) gather(what string, launches []kernels.Launch) (joined, error) {
	if len(launches) == 0 {
		return joined{}, fmt.Errorf("%s: expected at least one", what)
	}
	j := joined{parts: make([]*Launch, len(launches))}
	var plan strings.Builder
	for i, it := range launches {
		l, ok := it.(*Launch)
		if !ok || l == nil || l.dev != d || l.graph {
			return joined{}, fmt.Errorf("%s: launch %d is a %T, expected one of %s that is no graph", what, i, it, d.spec.ID)
		}
		j.parts[i] = l
		j.steps, j.queued = j.steps+int(l.c.count), j.queued+int(l.c.launches)
		plan.WriteString(l.Plan + "\n")
		if l.Library != nil {
			j.library = l.Library
		}
	}
	if j.queued > MostJoined {
		return joined{}, fmt.Errorf("%s: up to %d kernels, expected at most %d", what, j.queued, MostJoined)
	}
	j.plan = plan.String()
	return j, nil
}

// named returns a [Launch.Named] with the labels of the launches, each once, and how they run. Libraries tell the names of
// their kernels after the first run.
func (j joined) named(how string) func(*Launch) (string, kernels.Tiling) {
	return func(all *Launch) (string, kernels.Tiling) {
		if b := all.dev.blocks; b.primed[all.Plan] {
			for _, l := range j.parts {
				b.primed[l.Plan] = true
			}
		}
		return labels(j.parts, how), kernels.Tiling{}
	}
}

// Join returns a launch that runs other launches of this device, no graphs, one after the other. They overlap as they would
// by themselves. The label is that of the launches, each once. The error says that there are none, or more than [MostJoined] kernels.
func (d *Device) Join(launches []kernels.Launch) (*Launch, error) {
	j, err := d.gather("join launches", launches)
	if err != nil {
		return nil, err
	}
	c := C.joined(C.int(j.steps))
	if c == nil {
		return nil, errors.New("out of host memory")
	}
	at := 0
	for _, l := range j.parts {
		C.join_at(c, C.int(at), l.c)
		at += int(l.c.count)
	}
	all := &Launch{dev: d, c: c, Plan: j.plan, keep: []any{j.parts}, Library: j.library, Named: j.named("in sequence")}
	runtime.AddCleanup(all, func(c *C.ga_cuda_launch) { C.free(unsafe.Pointer(c)) }, c)
	return all, nil
}

// mostLabels is how many labels a joined launch lists: files limit their length.
const mostLabels = 3

// labels joins the labels of launches, each once, the most frequent first. It is empty if none is known.
func labels(parts []*Launch, how string) string {
	var out []string
	count := map[string]int{}
	for _, l := range parts {
		label := l.Label()
		if label == "" {
			continue
		}
		if count[label]++; count[label] == 1 {
			out = append(out, label)
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.SortStableFunc(out, func(a, b string) int { return count[b] - count[a] })
	if more := len(out) - mostLabels; more > 0 {
		out = append(out[:mostLabels], fmt.Sprintf("%d more", more))
	}
	return strings.Join(append(out, how), ", ")
}

// From returns the rest of the buffer from a byte on. It does not own the memory and must not be closed.
func (b *Buffer) From(bytes int64) (*Buffer, error) {
	switch {
	case b.Address == 0:
		return nil, fmt.Errorf("part of a buffer of %d bytes: it is closed", b.bytes)
	case bytes < 0 || bytes >= b.bytes:
		return nil, fmt.Errorf("part of a buffer of %d bytes from byte %d", b.bytes, bytes)
	}
	return &Buffer{dev: b.dev, Address: b.Address + uint64(bytes), bytes: b.bytes - bytes, edition: b.edition}, nil
}
