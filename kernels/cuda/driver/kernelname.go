// Package driver accesses a GPU through NVIDIA's driver: context, memory and code, launches and their timing,
// graphs, and weights in the kernels' formats. It needs the build tag cuda.
package driver

import (
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func kernelNames(symbols []string) string {
	names := make([]string, len(symbols))
	for i, s := range symbols {
		names[i] = kernels.SymbolName(s)
	}
	return strings.Join(names, " + ")
}
