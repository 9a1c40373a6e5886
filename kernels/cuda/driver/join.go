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
	"strings"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// MostJoined is the most kernels of a joined launch: a block is divided only between launches.
const MostJoined = 400

// Join returns a launch that runs other launches of this device, no graphs, one after the other. They overlap as they would
// by themselves. The label is that of the launches, each once. The error says that there are none, or more than [MostJoined] kernels.
func (d *Device) Join(launches []kernels.Launch) (*Launch, error) {
	if len(launches) == 0 {
		return nil, errors.New("join launches: expected at least one")
	}
	parts := make([]*Launch, len(launches))
	steps, queued := 0, 0
	for i, it := range launches {
		l, ok := it.(*Launch)
		if !ok || l == nil || l.dev != d || l.graph {
			return nil, fmt.Errorf("join launches: launch %d is a %T, expected one of %s that is no graph", i, it, d.spec.ID)
		}
		parts[i] = l
		steps, queued = steps+int(l.c.count), queued+int(l.c.launches)
	}
	if queued > MostJoined {
		return nil, fmt.Errorf("join launches: up to %d kernels, expected at most %d", queued, MostJoined)
	}
	c := C.joined(C.int(steps))
	if c == nil {
		return nil, errors.New("out of host memory")
	}
	var plan strings.Builder
	at := 0
	for _, l := range parts {
		C.join_at(c, C.int(at), l.c)
		at += int(l.c.count)
		plan.WriteString(l.Plan + "\n")
	}
	all := &Launch{dev: d, c: c, Plan: plan.String(), keep: []any{parts}}
	runtime.AddCleanup(all, func(c *C.ga_cuda_launch) { C.free(unsafe.Pointer(c)) }, c)
	for _, l := range parts {
		if l.Library != nil {
			all.Library = l.Library
		}
	}
	all.Named = func(*Launch) (string, kernels.Tiling) { return labels(parts), kernels.Tiling{} }
	return all, nil
}

// labels joins the labels of launches, each once.
func labels(parts []*Launch) string {
	var out []string
	seen := map[string]bool{}
	for _, l := range parts {
		if label := l.Label(); label != "" && !seen[label] {
			seen[label] = true
			out = append(out, label)
		}
	}
	return strings.Join(append(out, "in sequence"), ", ")
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
