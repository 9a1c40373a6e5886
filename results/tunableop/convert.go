package tunableop

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// LeastVersion is the first PyTorch whose TunableOp runs cuBLASLt algorithms.
const LeastVersion = "2.14"

// versionForm matches PyTorch versions: two or three numbers and the rest of torch.__version__.
var versionForm = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})(\.\d{1,4})?([+a-z].*)?$`)

// ParseVersion reads torch.__version__ and returns the three numbers that PyTorch compares with a file's
// validator. It refuses versions whose TunableOp has no cuBLASLt algorithms.
func ParseVersion(s string) (string, error) {
	found := versionForm.FindStringSubmatch(s)
	if found == nil {
		return "", fmt.Errorf("%.40q, expected torch.__version__, as in 2.15.0", s)
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	if major < 2 || major == 2 && minor < 14 {
		return "", fmt.Errorf("%s has no algorithms of cuBLASLt in TunableOp: expected %s or later", s, LeastVersion)
	}
	return found[1] + "." + found[2] + cmp.Or(found[3], ".0"), nil
}

// Written describes the result of Write.
type Written struct {
	Lines int
	// Left counts, by reason, the intervals that a file can't express, and Lines the Ms written.
	Left map[string]int
}

// Write writes a table's cuBLASLt algorithms as a file for the PyTorch version from [ParseVersion]: one line
// for each measured M of an interval, or for each M of a filled one. Other Ms are unaffected.
func Write(w io.Writer, t *table.Table, version string) (Written, error) {
	out := Written{Left: map[string]int{}}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "Validator,%s,%s\n", versionKey, version)
	// Tables have a product once per replaced kernel, files once.
	named := map[string]bool{}
	for i := range t.Series {
		s := &t.Series[i]
		for j := range s.Intervals {
			iv := &s.Intervals[j]
			if why := unwritable(s.Product, iv.Action); why != "" {
				out.Left[why]++
				continue
			}
			for m := iv.FirstMeasured(); m <= iv.To; m += max(1, iv.Step) {
				product := line(s.Product, m)
				if named[product] {
					out.Left["another kernel's entry is for the same product"]++
					continue
				}
				named[product] = true
				if out.Lines++; out.Lines > maxLines {
					return out, fmt.Errorf("TunableOp's file: more than %d lines", maxLines)
				}
				fmt.Fprintf(b, "%s,%s", product, AlgorithmName(iv.Action.Algorithm))
				if at := slices.IndexFunc(iv.Proofs, func(p table.Proof) bool { return p.M == m }); at >= 0 {
					fmt.Fprintf(b, ",%s", strconv.FormatFloat(iv.Proofs[at].RemedyUS/1e3, 'g', 6, 64))
				}
				b.WriteByte('\n')
			}
		}
	}
	if err := b.Flush(); err != nil {
		return out, fmt.Errorf("write TunableOp's file: %w", err)
	}
	return out, nil
}

// unwritable returns why a file can't express an action; empty if it can.
func unwritable(p table.Product, a table.Action) string {
	library, _ := kernels.SplitVersion(a.Kernel)
	switch {
	case a.Kind == table.Kernel && strings.HasPrefix(a.Kernel, Library):
		return "the attributes of the algorithm are not in the table"
	case a.Kind != table.Algorithm:
		return "it is no algorithm of " + Library
	case library != Library:
		return "the algorithm is not " + Library + "'s"
	case p.Epilogue != "":
		return "TunableOp's files name no epilogue that " + p.Epilogue + " could be"
	case p.Weights != "":
		return "weights are not plain"
	case typeName(p.DType) == "":
		return "PyTorch's operators have no " + p.DType
	}
	return ""
}

func typeName(dtype string) string {
	for name, d := range dtypes {
		if d == dtype {
			return name
		}
	}
	return ""
}

func line(p table.Product, m int) string {
	transposed, lda := "tn", p.K
	if p.Layout == table.KN {
		transposed, lda = "nn", p.N
	}
	return fmt.Sprintf("GemmTunableOp_%s_%s,%s_%d_%d_%d_ld_%d_%d_%d", typeName(p.DType), strings.ToUpper(transposed), transposed,
		p.N, m, p.K, lda, p.K, p.N)
}

// Table returns the file's algorithms as a table, compared with the kernel that PyTorch would run. As in
// PyTorch, a product's first line counts. unchecked counts the omitted lines by reason. The conditions are
// empty because the file has none.
func (f *File) Table(kernel string, created time.Time) (t *table.Table, unchecked map[string]int) {
	t = &table.Table{Schema: table.Schema, Created: created.UTC().Format(time.RFC3339), Series: []table.Series{}}
	unchecked = map[string]int{}
	series := map[table.Product]map[int]table.Action{}
	for _, e := range f.Entries {
		if why := e.untested(); why != "" {
			unchecked[why]++
			continue
		}
		p := e.Product
		p.Kernel = kernel
		if series[p] == nil {
			series[p] = map[int]table.Action{}
		}
		if _, twice := series[p][e.M]; !twice {
			series[p][e.M] = table.Action{Kind: table.Algorithm, Kernel: Library, Algorithm: e.Algorithm}
		}
	}
	for p, actions := range series {
		s := table.Series{Product: p, Default: table.Action{Kind: table.Direct}, Intervals: []table.Interval{}}
		for _, m := range slices.Sorted(maps.Keys(actions)) {
			s.Intervals = append(s.Intervals, table.Interval{From: m, To: m, Action: actions[m]})
		}
		t.Series = append(t.Series, s)
	}
	t.Sort()
	return t, unchecked
}

// untested returns why an entry is omitted from tables; empty if it is not.
func (e Entry) untested() string {
	switch {
	case e.Other != "":
		return e.Other
	case e.Bias:
		return "it adds a bias"
	case e.Algorithm == table.Attributes{}:
		return "it names no algorithm of " + Library
	}
	return ""
}

// Strike writes the file without the lines for which lose returns true, otherwise unchanged.
func (f *File) Strike(w io.Writer, lose func(p table.Product, m int) bool) error {
	b := bufio.NewWriter(w)
	for _, v := range f.Validators {
		fmt.Fprintf(b, "Validator,%s,%s\n", v[0], v[1])
	}
	for _, e := range f.Entries {
		if e.untested() != "" || !lose(e.Product, e.M) {
			fmt.Fprintln(b, e.Text)
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write TunableOp's file: %w", err)
	}
	return nil
}
