package report

import (
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/report/golden"
	"github.com/gemmaudit/gemmaudit/results/table"
)

func TestTable(t *testing.T) {
	text, err := os.ReadFile("../results/table/testdata/table.json")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := table.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var lookups []Lookup
	for _, s := range shown.Series {
		for _, m := range []int{1, 80, 100, 161, 220, 242, 248, 252, 256, 5000} {
			a := s.Lookup(m)
			lookups = append(lookups, Lookup{Product: s.Product, M: m, Action: a, Parts: a.Parts(m), Listed: true})
		}
	}
	other := table.Product{Kernel: "onednn", DType: "bf16", Layout: table.NK, N: 1, K: 1}
	lookups = append(lookups, Lookup{Product: other, M: 7, Action: table.Action{Kind: table.Direct}, Parts: []int{7}})
	for _, f := range []Format{Table, CSV, Markdown, JSONL} {
		var b strings.Builder
		if err := WriteTable(&b, f, "table.json", shown); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "table."+string(f), b.String())
		b.Reset()
		if err := WriteLookups(&b, f, lookups); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "lookups."+string(f), b.String())
	}
}

// Tables of people name the advice that only JSON lists.
func TestTableCountsAdvice(t *testing.T) {
	var b strings.Builder
	if err := WriteTable(&b, Table, "t.json", &table.Table{Advice: make([]table.Advice, 2)}); err != nil {
		t.Fatal(err)
	}
	if want := "2 pieces of advice on weights"; !strings.Contains(b.String(), want) {
		t.Errorf("%s\nwant %q", b.String(), want)
	}
}
