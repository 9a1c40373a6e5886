package table_test

import (
	"fmt"
	"log"
	"os"

	"github.com/gemmaudit/gemmaudit/results/table"
)

// An engine parses the table once and looks up every product before its launch.
func Example() {
	data, err := os.ReadFile("testdata/table.json")
	if err != nil {
		log.Fatal(err)
	}
	t, err := table.Parse(data)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range []int{64, 80, 161, 220} {
		kernel := "onednn"
		a := t.Lookup(table.Product{Kernel: kernel, DType: "bf16", Layout: table.KN, N: 4096, K: 4096}, m)
		if a.Kind == table.Kernel {
			kernel = a.Kernel
		}
		fmt.Printf("m%d on %s: %v\n", m, kernel, a.Parts(m))
	}
	// Output:
	// m64 on onednn: [64]
	// m80 on onednn: [96]
	// m161 on onednn: [96 64 1]
	// m220 on tiled: [220]
}
