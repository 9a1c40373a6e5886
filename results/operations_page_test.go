package results

import (
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// docs/operations.md must show a batch as stored.
func TestOperationsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	key := SeriesKey{Device: "cuda:0", Kernel: "cublas", Subject: kernels.Product(kernels.BF16, 4096, 4096), Regime: Engine}
	key.Products, key.Layout = 8, kernels.Transposed
	id, err := identityOf(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"dims      " + id.Dims, "operands  " + id.Operands} {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("the page does not show %s", line)
		}
	}
	var read SeriesKey
	for name, of := range map[string]Identity{
		"set of dimensions": {id.Operation, `{"active":8,"groups":64,"k":7168,"n":4096,"skew":100}`, id.Operands, id.Layout},
		"set of operands": {id.Operation, id.Dims,
			strings.Replace(id.Operands, `,"output"`, `,"bias":{"type":"bf16","bits":16},"output"`, 1), id.Layout},
	} {
		if err := of.fill(&read); err == nil || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "is not known to this program") {
			t.Errorf("an unknown %s: %v", name, err)
		}
	}
}
