package table

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// lookedUpTo is the last M of the golden answers.
const lookedUpTo = 256

// lookups returns the answers for the example's and similar products at every M. The Python reader is tested
// with this file, and the C and Go readers with Lookup.
func lookups(t *Table) []byte {
	var b bytes.Buffer
	c := csv.NewWriter(&b)
	c.Write([]string{"kernel", "dtype", "weights", "layout", "n", "k", "m", "action", "pad_to", "pad", "use_kernel", "algorithm", "parts"})
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	for _, p := range queries(t) {
		for m := 1; m <= lookedUpTo; m++ {
			a := t.Lookup(p, m)
			algorithm := ""
			if a.Algorithm != (Attributes{}) {
				algorithm = join(a.Algorithm.list(), " ")
			}
			c.Write([]string{p.Kernel, p.DType, p.Weights, p.Layout, strconv.Itoa(p.N), strconv.Itoa(p.K), strconv.Itoa(m),
				string(a.Kind), number(a.PadTo), string(a.Pad), a.Kernel, algorithm, join(a.Parts(m), "+")})
		}
	}
	c.Flush()
	return b.Bytes()
}

func TestGoldenLookups(t *testing.T) {
	got := lookups(example())
	path := filepath.Join("testdata", "lookups.csv")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, b := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("%s, line %d (rewrite it with -update):\n got %s\nwant %s", path, i+1, b[i], a[i])
		}
	}
	if len(a) != len(b) {
		t.Errorf("%s: %d lines, expected %d", path, len(a), len(b))
	}
}
