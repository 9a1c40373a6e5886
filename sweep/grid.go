package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// MaxDimension limits every M, N and K that a user may write. Products of three fit a float64 and
	// products of two an int64.
	MaxDimension = results.MaxM
	// MaxBatches limits the Ms of one grid before any allocation.
	MaxBatches = results.MaxMs
	// DefaultMaxBatch is where a bare "pow2" ends.
	DefaultMaxBatch = 32768
)

// SyntaxError reports an argument that can't be parsed.
type SyntaxError struct {
	What     string // "batches", "shape" or "shard"
	Item     string // the offending item, as written
	Reason   string
	Expected string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s: %q: %s: expected %s", e.What, e.Item, e.Reason, e.Expected)
}

const batchesExpected = "numbers (1,2,4), a range from:to:step (4:32768:4), pow2 or pow2:4096"

// Batches holds the Ms of a series.
type Batches = results.Ms

// ParseBatches parses a grid of Ms; the package comment specifies the language.
func ParseBatches(s string) (Batches, error) {
	if strings.TrimSpace(s) == "" {
		return nil, &SyntaxError{"batches", s, "the grid is empty", batchesExpected}
	}
	var out Batches
	for item := range strings.SplitSeq(s, ",") {
		var err error
		if out, err = appendItem(out, strings.ToLower(strings.TrimSpace(item))); err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func appendItem(out Batches, item string) (Batches, error) {
	bad := func(format string, args ...any) error {
		return &SyntaxError{"batches", item, fmt.Sprintf(format, args...), batchesExpected}
	}
	if item == "" {
		return nil, bad("an item between commas is empty")
	}
	fields := strings.Split(item, ":")
	powers := fields[0] == "pow2"
	if powers {
		fields = fields[1:]
	}
	if len(fields) > 3 || powers && len(fields) > 2 {
		return nil, bad("too many colons")
	}
	nums := make([]int, len(fields))
	for i, f := range fields {
		n, reason := parseDimension(f)
		if reason != "" {
			return nil, bad("%s", reason)
		}
		nums[i] = n
	}
	if powers {
		from, to := 1, DefaultMaxBatch
		switch len(nums) {
		case 1:
			to = nums[0]
		case 2:
			from, to = nums[0], nums[1]
		}
		found := false
		for p := 1; p <= to; p *= 2 {
			if p >= from {
				out, found = append(out, p), true
			}
		}
		if !found {
			return nil, bad("no power of two lies between %d and %d", from, to)
		}
		return out, nil
	}
	if len(nums) == 1 {
		if len(out) >= MaxBatches {
			return nil, bad("the grid has more than %d entries", MaxBatches)
		}
		return append(out, nums[0]), nil
	}
	from, to, step := nums[0], nums[1], 1
	if len(nums) == 3 {
		step = nums[2]
	}
	if from > to {
		return nil, bad("the range is empty, %d is above %d", from, to)
	}
	n := (to-from)/step + 1
	if n > MaxBatches-len(out) {
		return nil, bad("the grid has more than %d entries", MaxBatches)
	}
	out = slices.Grow(out, n)
	for m := from; m <= to; m += step {
		out = append(out, m)
	}
	return out, nil
}

func parseDimension(s string) (n int, reason string) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, "a number is missing"
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, fmt.Sprintf("%q is not a number", s)
		}
	}
	n, err := strconv.Atoi(s)
	switch {
	case err != nil || n > MaxDimension:
		return 0, fmt.Sprintf("%s is above %d", s, MaxDimension)
	case n < 1:
		return 0, fmt.Sprintf("%s is below 1", s)
	}
	return n, ""
}

const shapeExpected = "n and k, as in n14336k4096, and possibly m and x, as in m512n14336k4096x8"

// ParseShape parses "n14336k4096" or "m512n14336k4096", the size of a single product; M is 0 if absent.
func ParseShape(s string) (kernels.Shape, error) {
	t, err := ParseProduct(s)
	if err == nil && t.Products > 0 {
		err = &SyntaxError{"shape", s, "x makes a batch of it", "a single product, as in m512n14336k4096"}
	}
	if err != nil {
		return kernels.Shape{}, err
	}
	return kernels.Shape{M: t.M, N: t.N, K: t.K}, nil
}

// ParseProduct also parses "n4096k4096x8", a batch of eight products of that size; see [ParseShape].
func ParseProduct(s string) (Target, error) {
	var t Target
	rest := strings.ToLower(strings.TrimSpace(s))
	if named := namedSides(rest); named != "" {
		return Target{}, &SyntaxError{"shape", s, "numbers without names", "them with their names, as in " + named}
	}
	reason := scanSizes(rest, "the letters m, n, k and x", []sizeField{
		{"m", &t.M, false}, {"n", &t.N, true}, {"k", &t.K, true}, {"x", &t.Products, false},
	})
	if reason != "" {
		return Target{}, &SyntaxError{"shape", s, reason, shapeExpected}
	}
	return t, nil
}

type sizeField struct {
	name   string
	value  *int // 0 if it is absent
	needed bool
}

// scanSizes parses lower-case sizes in any order, each at most once. reason describes the first invalid or
// missing one.
func scanSizes(rest, among string, fields []sizeField) (reason string) {
	for rest != "" {
		i := slices.IndexFunc(fields, func(f sizeField) bool { return strings.HasPrefix(rest, f.name) })
		if i < 0 {
			return fmt.Sprintf("%q is none of %s", rest[:1], among)
		}
		f := fields[i]
		rest = rest[len(f.name):]
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		n, reason := parseDimension(digits)
		switch {
		case reason != "":
			return f.name + ": " + reason
		case *f.value != 0:
			return f.name + " is given twice"
		}
		*f.value, rest = n, strings.TrimLeft(rest[len(digits):], " \t")
	}
	for _, f := range fields {
		if f.needed && *f.value == 0 {
			return f.name + " is missing"
		}
	}
	return ""
}

// namedSides rewrites "4096x4096" with the names of the sides, or returns "".
func namedSides(s string) string {
	sides := strings.Split(s, "x")
	names := "nk"
	switch len(sides) {
	case 2:
	case 3:
		names = "mnk"
	default:
		return ""
	}
	var b strings.Builder
	for i, side := range sides {
		if _, reason := parseDimension(side); reason != "" {
			return ""
		}
		b.WriteString(names[i:i+1] + strings.TrimSpace(side))
	}
	return b.String()
}

// Shard is one of Count parts of a plan, counted from 1. The zero value is the
// whole plan.
type Shard struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

// No cluster has more machines.
const maxShards = 1 << 16

// ParseShard parses "3/8". Counting from 0 also works: 0/8 equals 8/8, so 0/8 to 7/8 cover each part once.
func ParseShard(s string) (Shard, error) {
	const expected = "part/parts with 0 ≤ part ≤ parts, as in 3/8"
	bad := func(reason string) (Shard, error) {
		return Shard{}, &SyntaxError{"shard", s, reason, expected}
	}
	left, right, ok := strings.Cut(s, "/")
	if !ok {
		return bad("there is no slash")
	}
	index, reason := 0, ""
	if strings.TrimSpace(left) != "0" {
		index, reason = parseDimension(left)
	}
	if reason != "" {
		return bad(reason)
	}
	count, reason := parseDimension(right)
	switch {
	case reason != "":
		return bad(reason)
	case count > maxShards:
		return bad(fmt.Sprintf("%d is above %d", count, maxShards))
	case index > count:
		return bad(fmt.Sprintf("part %d of %d does not exist", index, count))
	}
	if index == 0 {
		index = count
	}
	return Shard{index, count}, nil
}

// String formats a shard as "3/8", the whole plan as "1/1".
func (s Shard) String() string {
	if s.Count == 0 {
		return "1/1"
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}
