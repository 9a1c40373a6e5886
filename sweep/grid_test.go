package sweep

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"pgregory.net/rapid"
)

func TestParseBatches(t *testing.T) {
	for _, c := range []struct {
		in    string
		count int
		want  []int // all of them, or the first ones and after -1 the last
		err   string
	}{
		{in: "1,2,4,8", count: 4, want: []int{1, 2, 4, 8}},
		{in: " 8 , 2,2,4 ", count: 3, want: []int{2, 4, 8}},
		{in: "4:32768:4", count: 8192, want: []int{4, 8, 12, -1, 32768}},
		{in: "250:253", count: 4, want: []int{250, 251, 252, 253}},
		{in: "4:10:4", count: 2, want: []int{4, 8}},
		{in: "7:7:100", count: 1, want: []int{7}},
		{in: "pow2", count: 16, want: []int{1, 2, 4, -1, 32768}},
		{in: "POW2:4096", count: 13, want: []int{1, -1, 4096}},
		{in: "pow2:5:40", count: 3, want: []int{8, 16, 32}},
		{in: "pow2:8,6:10:2", count: 6, want: []int{1, 2, 4, 6, 8, 10}},
		{in: "", err: "the grid is empty"},
		{in: "  ", err: "the grid is empty"},
		{in: "0", err: "0 is below 1"},
		{in: "1,,2", err: "an item between commas"},
		{in: "0:16:4", err: "0 is below 1"},
		{in: "4:8:0", err: "0 is below 1"},
		{in: "8:4", err: "the range is empty"},
		{in: "1:2:3:4", err: "too many colons"},
		{in: "pow2:1:2:3", err: "too many colons"},
		{in: "pow2:5:7", err: "no power of two"},
		{in: "-4", err: `"-4" is not a number`},
		{in: "+4", err: `"+4" is not a number`},
		{in: "4:x:4", err: `"x" is not a number`},
		{in: "4::4", err: "a number is missing"},
		{in: "1e3", err: "is not a number"},
		{in: "99999999999999999999", err: "is above 4194304"},
		{in: "4194305", err: "is above 4194304"},
		{in: "1:4194304", err: "more than 131072 entries"},
		{in: "1:131072,1", err: "more than 131072 entries"},
	} {
		got, err := ParseBatches(c.in)
		if c.err != "" {
			var syntax *SyntaxError
			if err == nil || !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.err) ||
				!strings.Contains(err.Error(), "expected numbers") {
				t.Errorf("%q: error %v, expected %q and what was expected", c.in, err, c.err)
			}
			continue
		}
		if err != nil || len(got) != c.count {
			t.Errorf("%q: %d batches, error %v; expected %d", c.in, len(got), err, c.count)
			continue
		}
		head, tail := c.want, []int(nil)
		if i := slices.Index(c.want, -1); i >= 0 {
			head, tail = c.want[:i], c.want[i+1:]
		}
		if !slices.Equal(got[:len(head)], head) || !slices.Equal(got[len(got)-len(tail):], tail) {
			t.Errorf("%q: %v, expected %v", c.in, got, c.want)
		}
	}
}

func TestBatchesAreWrittenAsTheyAreRead(t *testing.T) {
	for _, c := range [][2]string{
		{"4:32768:4", "4:32768:4"}, {"1,2", "1,2"}, {"1,2,3", "1:3"}, {"1,2,3,5,7,9,20", "1:3,5:9:2,20"}, {"pow2:8", "1,2,4,8"},
	} {
		b, err := ParseBatches(c[0])
		if err != nil || b.String() != c[1] {
			t.Errorf("%q is written %q, expected %q (%v)", c[0], b, c[1], err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := Batches(rapid.SliceOfNDistinct(rapid.IntRange(1, 200), 1, 60, rapid.ID[int]).Draw(t, "ms"))
		slices.Sort(b)
		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		var back Batches
		if err := json.Unmarshal(data, &back); err != nil || !slices.Equal(b, back) {
			t.Fatalf("%v was written %s and read %v (%v)", []int(b), data, []int(back), err)
		}
	})
}

func TestParseShape(t *testing.T) {
	for _, c := range []struct {
		in   string
		want kernels.Shape
		err  string
	}{
		{in: "n14336k4096", want: kernels.Shape{N: 14336, K: 4096}},
		{in: "K4096 N14336", want: kernels.Shape{N: 14336, K: 4096}},
		{in: "m512n14336k4096", want: kernels.Shape{M: 512, N: 14336, K: 4096}},
		{in: "", err: "n is missing"},
		{in: "n14336", err: "k is missing"},
		{in: "k4096", err: "n is missing"},
		{in: "m0n1k1", err: "0 is below 1"},
		{in: "n0k4096", err: "0 is below 1"},
		{in: "n1k1n2", err: "n is given twice"},
		{in: "nk", err: "a number is missing"},
		{in: "n1x2", err: "k is missing"},
		{in: "n1k1x2", err: "x makes a batch"},
		{in: "14336x4096", err: `as in n14336k4096`},
		{in: "8x14336x4096", err: `as in m8n14336k4096`},
		{in: "8x0", err: `"8" is none of the letters`},
		{in: "n99999999999999999999k1", err: "above 4194304"},
	} {
		got, err := ParseShape(c.in)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%q: %v, %v; expected %v", c.in, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: error %v, expected %q", c.in, err, c.err)
		}
	}
}

func TestParseProduct(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Target
		err  string
	}{
		{in: "n4096k4096", want: Target{N: 4096, K: 4096}},
		{in: "n4096k4096x8", want: Target{N: 4096, K: 4096, Products: 8}},
		{in: "m512 N4096 K2048 X8", want: Target{M: 512, N: 4096, K: 2048, Products: 8}},
		{in: "n4096k4096x1", want: Target{N: 4096, K: 4096, Products: 1}},
		{in: "n1k1x0", err: "0 is below 1"},
		{in: "n1k1x", err: "a number is missing"},
		{in: "n1k1x2x2", err: "x is given twice"},
		{in: "x8", err: "n is missing"},
		{in: "8x4096x4096", err: "as in m8n4096k4096"},
	} {
		got, err := ParseProduct(c.in)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%q: %v, %v; expected %v", c.in, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: error %v, expected %q", c.in, err, c.err)
		}
	}
}

// The size in a printed reproduction command parses to the same subject.
func TestProductSizeReadsBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		want := Target{N: rapid.IntRange(1, MaxDimension).Draw(r, "n"), K: rapid.IntRange(1, MaxDimension).Draw(r, "k"),
			Products: rapid.IntRange(0, 512).Draw(r, "products")}
		subject, err := want.subject(kernels.BF16, kernels.Transposed, kernels.WeightFormat{})
		if err != nil {
			r.Fatal(err)
		}
		size := strings.ReplaceAll(subject.Size(), " ", "")
		if got, err := ParseTarget(kernels.GEMM, size); err != nil || got != want {
			r.Fatalf("%q: %+v, %v; expected %+v", size, got, err, want)
		}
	})
}

func TestParseShard(t *testing.T) {
	for text, want := range map[string]Shard{"3/8": {3, 8}, "8/8": {8, 8}, "0/8": {8, 8}, "0/1": {1, 1}} {
		if s, err := ParseShard(text); err != nil || s != want {
			t.Errorf("%s: %v, %v, expected %v", text, s, err, want)
		}
	}
	for _, bad := range []string{"", "3", "0/0", "/8", "9/8", "a/b", "3/8/9", "1/0", "1/99999999", "-1/3"} {
		if s, err := ParseShard(bad); err == nil {
			t.Errorf("%q was read as %v", bad, s)
		}
	}
}
