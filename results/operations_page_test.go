package results

import (
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestOperationsPage: what docs/operations.md shows of a batch is what a run file stores,
// and what it plans is refused by its name until it is known.
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
	for _, line := range []string{"dims      " + id.dims, "operands  " + id.operands} {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("the page does not show %s", line)
		}
	}
	var read SeriesKey
	for name, of := range map[string]identity{
		"set of dimensions": {id.operation, `{"active":8,"groups":64,"k":7168,"n":4096,"skew":100}`, id.operands, id.layout},
		"set of operands":   {id.operation, id.dims, strings.Replace(id.operands, `,"output"`, `,"bias":{"type":"bf16","bits":16},"output"`, 1), id.layout},
	} {
		if err := of.fill(&read); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "is not known to this program") {
			t.Errorf("a %s that is planned: %v", name, err)
		}
	}
}
