package cpu

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// Thousands of copies of a small matrix must take little more than their content.
func TestSmallBuffersShareMappings(t *testing.T) {
	dev := open(t, 1)
	const copies, each = 4096, 16 << 10
	seen := map[*slab]bool{}
	var all []*Buffer
	for range copies {
		b, err := dev.alloc(each)
		if err != nil {
			t.Fatal(err)
		}
		seen[b.slab] = true
		all = append(all, b)
	}
	if most := copies*each/slabBytes + 1; seen[nil] || len(seen) > most {
		t.Errorf("%d buffers of %d bytes lie in %d mappings, want at most %d", copies, each, len(seen), most)
	}
	for _, b := range all {
		b.Close()
		b.Close() // closing twice is harmless
	}
	for s := range seen {
		if s.live != 0 {
			t.Errorf("%d buffers of a mapping are still counted after all were closed", s.live)
		}
	}
	if dev.slabs.current != nil {
		t.Error("a mapping is kept although no buffer is left")
	}
}

// In any order of allocation and closing, buffers start zeroed and do not overlap.
func TestBuffersAreZeroedAndApart(t *testing.T) {
	dev := open(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		type held struct {
			b    *Buffer
			mark byte
		}
		var all []held
		defer func() {
			for _, h := range all {
				h.b.Close()
			}
		}()
		content := func(b *Buffer) []byte {
			out := make([]byte, b.Bytes())
			if err := b.Download(0, out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(t, "close") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				h := all[i]
				if want := bytes.Repeat([]byte{h.mark}, int(h.b.Bytes())); !bytes.Equal(content(h.b), want) {
					t.Fatalf("buffer of %d bytes was written to by another", h.b.Bytes())
				}
				h.b.Close()
				all = append(all[:i], all[i+1:]...)
				continue
			}
			size := rapid.SampledFrom([]int64{1, 63, 4096, 4097, 300000, slabLimit - 1, slabLimit, slabLimit + 1}).Draw(t, "bytes")
			b, err := dev.alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(content(b), make([]byte, size)) {
				t.Fatalf("a new buffer of %d bytes is not zero", size)
			}
			mark := byte(step%100 + 1)
			if err := b.Upload(0, bytes.Repeat([]byte{mark}, int(size))); err != nil {
				t.Fatal(err)
			}
			all = append(all, held{b, mark})
		}
	})
}
