package table

import (
	"bytes"
	"fmt"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// largestM is the largest M in a drawn table's intervals.
const largestM = 300

// anyWord is a name that may break generated source.
var anyWord = rapid.OneOf(
	rapid.SampledFrom([]string{"tiled", "onednn", `a"b\`, "??/", "*/ /* //", "größe", "%d%s", "{{.}}"}),
	rapid.StringMatching(`[ -~]{1,12}`),
)

func drawAction(t *rapid.T, from, to int) Action {
	kinds := []Kind{Direct, Pad, Kernel, Algorithm}
	if from > 1 {
		kinds = append(kinds, Split, Split)
	}
	a := Action{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	switch a.Kind {
	case Split:
		for rest := from - 1; rest > 0 && len(a.First) < 4; {
			part := rapid.IntRange(1, rest).Draw(t, "part")
			a.First = append(a.First, part)
			rest -= part
			if rapid.Bool().Draw(t, "enough") {
				break
			}
		}
	case Pad:
		a.PadTo = rapid.IntRange(to, to+64).Draw(t, "pad_to")
		a.Pad = rapid.SampledFrom([]PadKind{InPlace, Copied}).Draw(t, "pad")
	case Algorithm:
		a.Kernel = anyWord.Draw(t, "library")
		number := rapid.IntRange(0, 1<<16-1)
		a.Algorithm = Attributes{1, number.Draw(t, "tile"), 2, number.Draw(t, "split"), 3, 4, 5, 6, number.Draw(t, "cluster")}
	case Kernel:
		a.Kernel = anyWord.Draw(t, "kernel")
	}
	return a
}

var anyTable = rapid.Custom(func(t *rapid.T) *Table {
	table := &Table{
		Schema: Schema, Created: "2024-05-06T07:08:09Z",
		Validators: Validators{
			Device: anyWord.Draw(t, "device"), CPUModel: anyWord.Draw(t, "model"), Gemmaudit: anyWord.Draw(t, "version"),
			Libraries: rapid.MapOfN(anyWord, anyWord, 0, 3).Draw(t, "libraries"),
		},
		Series: []Series{},
	}
	if len(table.Validators.Libraries) == 0 {
		table.Validators.Libraries = nil
	}
	products := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Product {
		return Product{Kernel: anyWord.Draw(t, "kernel"), DType: rapid.SampledFrom([]string{"bf16", "fp32"}).Draw(t, "dtype"),
			Weights: rapid.SampledFrom([]string{"", "", "int4 g128x1 fp16"}).Draw(t, "weights"),
			Layout:  rapid.SampledFrom([]string{KN, NK}).Draw(t, "layout"),
			N:       rapid.SampledFrom([]int{1, 8, 4096}).Draw(t, "n"), K: rapid.SampledFrom([]int{1, 8, 1 << 30}).Draw(t, "k"),
			Epilogue: rapid.SampledFrom([]string{"", "", "bias", "bias+gelu", `a"b\`}).Draw(t, "epilogue")}
	}), 0, 4, func(p Product) Product { return p }).Draw(t, "series")
	for _, p := range products {
		s := Series{Product: p, Default: Action{Kind: Direct}, Intervals: []Interval{}}
		if rapid.IntRange(0, 3).Draw(t, "default") == 0 {
			s.Default = Action{Kind: Kernel, Kernel: anyWord.Draw(t, "kernel")}
		}
		for m := 1; m <= largestM; {
			from := m + rapid.IntRange(0, 40).Draw(t, "gap")
			to := from + rapid.IntRange(0, 40).Draw(t, "length")
			if to > largestM {
				break
			}
			s.Intervals = append(s.Intervals,
				Interval{From: from, To: to, Filled: rapid.Bool().Draw(t, "filled"), Action: drawAction(t, from, to)})
			m = to + 1
		}
		if rapid.Bool().Draw(t, "swept") {
			s.FromM, s.ToM, s.Served = 1, largestM+7, s.Count()
		}
		table.Series = append(table.Series, s)
	}
	table.Sort()
	return table
})

func drawnTables() []*Table {
	tables := []*Table{example(), {Schema: Schema, Created: "2024-05-06T07:08:09Z"}}
	for seed := range 8 {
		tables = append(tables, anyTable.Example(seed))
	}
	return tables
}

// queries are products to look up, some without a series.
func queries(t *Table) []Product {
	out := []Product{{Kernel: "none", DType: "bf16", Layout: KN, N: 1, K: 1}}
	for _, s := range t.Series {
		longer, typed, other, packed := s.Product, s.Product, s.Product, s.Product
		longer.K++
		typed.DType, packed.Weights = "x", "y"
		if other.Layout = KN; s.Layout == KN {
			other.Layout = NK
		}
		out = append(out, s.Product, longer, typed, other, packed)
	}
	return out
}

// answers is the expected output of the generated programs: each M's action with its parts for m and m/2 rows.
func answers(tables []*Table) string {
	var b strings.Builder
	for i, t := range tables {
		for j, q := range queries(t) {
			for m := 1; m <= largestM+100; m++ {
				a := t.Lookup(q, m)
				fmt.Fprintf(&b, "%d %d %d: %s %d %d [%s] %d %d %d %d %s / %s\n", i, j, m, a.Kind, a.PadTo, copies(a), a.Kernel,
					a.Algorithm.ID, a.Algorithm.Tile, a.Algorithm.SplitK, a.Algorithm.Cluster, join(a.Parts(m), " "),
					join(a.Parts(m/2), " "))
			}
		}
	}
	return b.String()
}

// copies is 1 for a pad whose rows are copied.
func copies(a Action) int {
	if a.Pad == Copied {
		return 1
	}
	return 0
}

func compare(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("line %d of %d:\n got %s\nwant %s", i+1, len(a), b[i], a[i])
		}
	}
	t.Fatalf("%d lines, expected %d", len(b), len(a))
}

func TestHeaderAgreesWithLookup(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	dir := t.TempDir()
	tables := drawnTables()
	var program strings.Builder
	program.WriteString("#include <stdio.h>\n")
	var body strings.Builder
	for i, table := range tables {
		prefix := fmt.Sprintf("t%d", i)
		var b bytes.Buffer
		if err := table.WriteHeader(&b, prefix); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, prefix+".h"), b.String())
		// Twice: two headers may include it.
		fmt.Fprintf(&program, "#include \"%s.h\"\n#include \"%s.h\"\n", prefix, prefix)
		for j, q := range queries(table) {
			weights := cString(q.Weights)
			if q.Weights == "" && j%2 == 0 {
				weights = "0" // equivalent to empty
			}
			epilogue := cString(q.Epilogue)
			if q.Epilogue == "" && j%2 == 0 {
				epilogue = "0"
			}
			fmt.Fprintf(&body, `	for (m = 1; m <= %d; m++) {
		const %s_product p = {%s, %s, %s, %s, %d, %d, %s};
		const %s_action *a = %s_lookup(&p, m);
		count = %s_parts(a, m, parts, 64);
		fewer = %s_parts(a, m / 2, half, 64);
		%s_attributes none = {0, 0, 0, 0, 0, 0, 0, 0, 0};
		%s_attributes told = a->algorithm ? *a->algorithm : none;
		printf("%d %d %%d: %%s %%d %%d [%%s] %%d %%d %%d %%d", m, kinds[a->kind], a->pad_to, a->copied, a->kernel ? a->kernel : "",
			told.id, told.tile, told.split_k, told.cluster);
		for (i = 0; i < count; i++)
			printf(" %%d", parts[i]);
		printf(" /");
		for (i = 0; i < fewer; i++)
			printf(" %%d", half[i]);
		printf("\n");
	}
`, largestM+100, prefix, cString(q.Kernel), cString(q.DType), weights, cString(q.Layout), q.N, q.K, epilogue, prefix, prefix, prefix,
				prefix, prefix, prefix, i, j)
		}
	}
	program.WriteString("int main(void)\n{\n\tstatic const char *const kinds[] = {\"direct\", \"split\", \"pad\", \"kernel\", " +
		"\"algorithm\"};\n\tint m, i, count, fewer, parts[64], half[64];\n")
	program.WriteString(body.String() + "\treturn 0;\n}\n")
	write(t, filepath.Join(dir, "main.c"), program.String())
	binary := filepath.Join(dir, "main")
	if out, err := exec.Command(cc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-o", binary,
		filepath.Join(dir, "main.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, answers(tables), string(out))
}

func TestGoSourceAgreesWithLookup(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("no Go tool: %v", err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module query\n\ngo 1.21\n")
	tables := drawnTables()
	var imports, body strings.Builder
	for i, table := range tables {
		pkg := fmt.Sprintf("t%d", i)
		var b bytes.Buffer
		if err := table.WriteGo(&b, pkg); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, pkg, "table.go"), b.String())
		fmt.Fprintf(&imports, "\t\"query/%s\"\n", pkg)
		for j, q := range queries(table) {
			fmt.Fprintf(&body, `	for m := 1; m <= %d; m++ {
		a := %s.Lookup(%s.Product{%q, %q, %q, %q, %d, %d, %q}, m)
		show(%d, %d, m, a.Kind, a.PadTo, a.Copied, a.Kernel, []int{a.Algorithm.ID, a.Algorithm.Tile, a.Algorithm.SplitK, `+
				`a.Algorithm.Cluster}, a.Parts(nil, m), a.Parts(nil, m/2))
	}
`, largestM+100, pkg, pkg, q.Kernel, q.DType, q.Weights, q.Layout, q.N, q.K, q.Epilogue,
				i, j)
		}
	}
	write(t, filepath.Join(dir, "main.go"),
		"package main\n\nimport (\n\t\"bufio\"\n\t\"fmt\"\n\t\"os\"\n\t\"strings\"\n\n"+imports.String()+`)

var out = bufio.NewWriter(os.Stdout)

func show(i, j, m int, kind string, padTo int, copied bool, kernel string, algorithm, parts, half []int) {
	copies := 0
	if copied {
		copies = 1
	}
	fmt.Fprintf(out, "%d %d %d: %s %d %d [%s] %s %s / %s\n", i, j, m, kind, padTo, copies, kernel, strings.Trim(fmt.Sprint(algorithm), `+
			`"[]"), strings.Trim(fmt.Sprint(parts), "[]"), strings.Trim(fmt.Sprint(half), "[]"))
}

func main() {
`+body.String()+"\tout.Flush()\n}\n")
	cmd := exec.Command(goTool, "run", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+compiledAs())
	compare(t, answers(tables), outputOf(t, cmd))
}

// compiledAs returns this program's build flags, so that the cached standard library is reused.
func compiledAs() string {
	info, _ := debug.ReadBuildInfo()
	var flags []string
	for _, s := range info.Settings {
		if s.Key == "-trimpath" || s.Key == "-gcflags" && !strings.Contains(s.Value, " ") {
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return strings.Join(flags, " ")
}

func outputOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPropertyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := anyTable.Draw(t, "table")
		if err := table.Validate(); err != nil {
			t.Fatal(err)
		}
		data, err := table.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(table, got) {
			t.Fatalf("parsed\n%+v\nexpected\n%+v", got, table)
		}
		// The binary search must agree with a linear one, and parts must add up to m.
		for _, s := range table.Series {
			for m := 1; m <= largestM+50; m++ {
				want := s.Default
				for _, iv := range s.Intervals {
					if iv.From <= m && m <= iv.To {
						want = iv.Action
					}
				}
				a := table.Lookup(s.Product, m)
				if !a.Equal(want) {
					t.Fatalf("%v m%d: %+v, expected %+v", &s, m, a, want)
				}
				sum := 0
				for _, part := range a.Parts(m) {
					if part < 1 {
						t.Fatalf("m%d: parts %v", m, a.Parts(m))
					}
					sum += part
				}
				if a.Kind == Pad {
					sum -= a.PadTo - m
				}
				if sum != m {
					t.Fatalf("m%d: parts %v of %+v add up to %d", m, a.Parts(m), a, sum)
				}
			}
		}
	})
}

func TestGoSourceIsFormatted(t *testing.T) {
	for i, table := range drawnTables() {
		var b bytes.Buffer
		if err := table.WriteGo(&b, ""); err != nil {
			t.Fatalf("table %d: %v", i, err)
		}
		formatted, err := format.Source(b.Bytes())
		if err != nil {
			t.Fatalf("table %d: %v", i, err)
		}
		if !bytes.Equal(formatted, b.Bytes()) {
			compare(t, string(formatted), b.String())
		}
	}
}

// Writing a large table must not hold the whole source in memory.
func TestSourceIsStreamed(t *testing.T) {
	const intervals, most = 200_000, 800
	large := &Table{Schema: Schema, Created: "2024-05-06T07:08:09Z",
		Series: []Series{{Product: Product{Kernel: "tiled", DType: "fp32", Layout: NK, N: 8, K: 16}}}}
	for i := range intervals {
		large.Series[0].Intervals = append(large.Series[0].Intervals,
			Interval{From: 2*i + 1, To: 2*i + 1, Action: Action{Kind: Pad, PadTo: 2*i + 2, Pad: InPlace}})
	}
	for name, write := range map[string]func(io.Writer) error{
		"Go": func(w io.Writer) error { return large.WriteGo(w, "") }, "C": func(w io.Writer) error { return large.WriteHeader(w, "") },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := write(io.Discard); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / intervals; got > most {
			t.Errorf("%s: %d bytes allocated for each action, expected at most %d", name, got, most)
		}
	}
}
