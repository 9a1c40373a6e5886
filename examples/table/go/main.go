// Command lookup prints a table's entry for one product: lookup KERNEL DTYPE LAYOUT N K M. `gemmaudit splits
// run.db --table gemm/gemm.go` generates the package gemm.
package main

import (
	"fmt"
	"os"
	"strconv"

	"lookup/gemm"
)

func main() {
	if len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "usage: lookup KERNEL DTYPE LAYOUT N K M")
		os.Exit(2)
	}
	var sizes [3]int
	for i := range sizes {
		var err error
		if sizes[i], err = strconv.Atoi(os.Args[4+i]); err != nil {
			fmt.Fprintln(os.Stderr, "lookup:", err)
			os.Exit(2)
		}
	}
	product := gemm.Product{Kernel: os.Args[1], DType: os.Args[2], Layout: os.Args[3], N: sizes[0], K: sizes[1]}
	action := gemm.Lookup(product, sizes[2])
	kernel := product.Kernel
	if action.Kind == "kernel" {
		kernel = action.Kernel
	}
	fmt.Print(kernel)
	for _, part := range action.Parts(nil, sizes[2]) {
		fmt.Print(" ", part)
	}
	fmt.Println()
}
