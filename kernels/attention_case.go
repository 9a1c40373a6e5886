package kernels

import (
	"fmt"
	"math"
)

// AttentionCase is one attention launch of the correctness check: the sizes of [Attention] and the position
// of its first row in the sequence. Zero fields take defaults: Capacity the least that holds the visible
// keys, Length Position+Rows, LDQ Heads.Query·Dim, Scale 1/√Dim.
type AttentionCase struct {
	Rows     int
	Heads    Heads
	DType    DType
	Window   int
	Position int
	Capacity int
	Length   int
	LDQ      int
	Scale    float64
}

func (c AttentionCase) String() string {
	return fmt.Sprintf("attention %s rows %d heads %d/%d of %d window %d position %d capacity %d length %d",
		c.DType, c.Rows, c.Heads.Query, c.Heads.KV, c.Heads.Dim, c.Window, c.Position, c.Capacity, c.Length)
}

// Normalized returns c with its defaults filled in. The error names the invalid field.
func (c AttentionCase) Normalized() (AttentionCase, error) {
	if err := c.Heads.Validate(); err != nil {
		return c, fmt.Errorf("%v: %w", c, err)
	}
	switch {
	case c.Rows < 1 || c.Position < 0 || c.Window < 0:
		return c, fmt.Errorf("%v: expected at least 1 row, and no negative window or position", c)
	case c.DType != FP32 && c.DType != FP16 && c.DType != BF16:
		return c, fmt.Errorf("%v: expected fp32, fp16 or bf16", c)
	}
	first, _ := c.sees(0)
	need := c.Position + c.Rows - first
	for _, f := range []struct {
		name        string
		value       *int
		least, best int
	}{
		{"capacity", &c.Capacity, need, (need + CacheGranule - 1) / CacheGranule * CacheGranule},
		{"length", &c.Length, c.Position + c.Rows, c.Position + c.Rows},
		{"ldq", &c.LDQ, c.Heads.Query * c.Heads.Dim, c.Heads.Query * c.Heads.Dim},
	} {
		if *f.value == 0 {
			*f.value = f.best
		}
		if *f.value < f.least {
			return c, fmt.Errorf("%v: %s is %d, expected at least %d", c, f.name, *f.value, f.least)
		}
	}
	if c.Capacity%CacheGranule != 0 {
		return c, fmt.Errorf("%v: expected a capacity that is a multiple of %d", c, CacheGranule)
	}
	if c.Scale == 0 {
		c.Scale = 1 / math.Sqrt(float64(c.Heads.Dim))
	}
	return c, nil
}

// AttentionCases returns the standard cases for a type and head size: one row and many, odd counts around
// every tile, short and long contexts, wrapped ring buffers, windows from one key to all, and each way of
// sharing key-value heads.
func AttentionCases(d DType, dim int) []AttentionCase {
	var out []AttentionCase
	add := func(query, kv, rows, position, window, capacity int, change func(*AttentionCase)) {
		c := AttentionCase{Rows: rows, Heads: Heads{query, kv, dim}, DType: d, Window: window, Position: position, Capacity: capacity}
		if change != nil {
			change(&c)
		}
		out = append(out, c)
	}
	long := func(c *AttentionCase) { c.Length = c.Capacity }
	loose := func(extra int) func(*AttentionCase) {
		return func(c *AttentionCase) { c.LDQ = c.Heads.Query*c.Heads.Dim + extra }
	}
	// One row: starts of sequences, tile edges, splits of the sequence.
	for _, position := range []int{0, 1, 15, 31, 63, 64, 127, 255, 256, 1000} {
		add(32, 8, 1, position, 0, 0, nil)
	}
	add(32, 8, 1, 0, 0, 4096, long)
	add(32, 8, 1, 70, 0, 4096, long)
	add(32, 8, 1, 2500, 0, 4096, long)
	add(4, 4, 1, 255, 0, 0, loose(2*4*dim))
	add(4, 4, 1, 4099, 0, 0, nil)
	add(8, 1, 1, 1000, 0, 0, nil)
	add(8, 1, 1, 5000, 0, 0, nil)
	add(1, 1, 1, 77, 0, 0, nil)
	add(6, 2, 1, 300, 0, 0, nil)
	// One row and a wrapped ring buffer.
	add(32, 8, 1, 1000, 1, 256, nil)
	add(32, 8, 1, 1000, 32, 256, nil)
	add(32, 8, 1, 1023, 256, 256, nil)
	add(32, 8, 1, 1024, 256, 256, nil)
	add(32, 8, 1, 1100, 200, 256, loose(16*dim))
	add(4, 4, 1, 10_000, 4096, 4096, nil)
	add(4, 4, 1, 10_000, 4000, 4352, func(c *AttentionCase) { c.Length = 20_000 })
	add(8, 1, 1, 777, 4096, 0, nil)
	add(8, 1, 1, 1_000_003, 500, 512, nil)
	// Few rows: several tokens at once.
	for _, rows := range []int{2, 3, 5, 7, 8, 9, 13} {
		add(8, 2, rows, 255, 0, 0, nil)
		add(8, 1, rows, 1000, 32, 256, loose(8))
	}
	// Prompts at the start of a sequence and after cached tokens.
	for _, rows := range []int{15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129} {
		add(4, 2, rows, 0, 0, 0, loose(4*dim))
	}
	add(8, 1, 300, 0, 0, 0, nil)
	add(4, 4, 257, 1, 0, 512, long)
	add(4, 1, 191, 255, 0, 0, nil)
	add(4, 4, 65, 1000, 0, 0, nil)
	add(32, 8, 19, 129, 0, 0, nil)
	add(4, 4, 70, 0, 1, 0, nil)
	add(4, 2, 300, 0, 32, 512, nil)
	add(4, 2, 129, 1000, 32, 256, loose(24))
	add(4, 2, 129, 1001, 33, 256, nil)
	add(8, 2, 100, 1000, 64, 256, nil)
	add(4, 1, 128, 4000, 129, 256, nil)
	add(2, 2, 150, 511, 362, 512, nil)
	add(2, 1, 130, 900, 4096, 0, nil)
	add(2, 1, 90, 9000, 1500, 1792, nil)
	return out
}
