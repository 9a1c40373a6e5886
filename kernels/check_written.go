package kernels

import "bytes"

const (
	writtenOutside = "written outside of the output"
	notWritten     = "it was not written"
)

// written is an output buffer after a launch; every element was poison before. The output is bytes from to
// to.
type written struct {
	got, poison []byte
	from, to    int
}

// outside counts changed elements outside the output and returns the byte of the first.
func (w written) outside() (first, wrong int) {
	for _, part := range [][2]int{{0, w.from}, {w.to, len(w.got)}} {
		for at := part[0]; at < part[1]; at += len(w.poison) {
			if bytes.Equal(w.got[at:at+len(w.poison)], w.poison) {
				continue
			}
			if wrong == 0 {
				first = at
			}
			wrong++
		}
	}
	return first, wrong
}

// unwritten counts unchanged elements of the output and returns the byte of the first.
func (w written) unwritten() (first, wrong int) {
	size := len(w.poison)
	for at := w.from; at < w.to; {
		next := bytes.Index(w.got[at:w.to], w.poison)
		if next < 0 {
			break
		}
		// A match across two elements does not count.
		if at += next; (at-w.from)%size != 0 {
			at++
			continue
		}
		if wrong == 0 {
			first = at
		}
		wrong++
		at += size
	}
	return first, wrong
}
