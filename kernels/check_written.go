package kernels

import "bytes"

// What the gates of attention and softmax say of elements at the wrong place.
const (
	writtenOutside = "written outside of the output"
	notWritten     = "it was not written"
)

// written is a buffer behind a kernel, every element of which was poison before. The output is
// its bytes from to to.
type written struct {
	got, poison []byte
	from, to    int
}

// outside counts the elements beside the output that changed, and finds the byte of the first.
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

// unwritten counts the elements of the output that did not, and finds the byte of the first.
func (w written) unwritten() (first, wrong int) {
	size := len(w.poison)
	for at := w.from; at < w.to; {
		next := bytes.Index(w.got[at:w.to], w.poison)
		if next < 0 {
			break
		}
		// One that lies across two elements is none.
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
