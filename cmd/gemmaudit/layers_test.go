package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The packages and what each may import of this module: measuring knows nothing of judging,
// and showing nothing of kernels. What two of them need lies below both.
func TestPackagesImportDownwards(t *testing.T) {
	const module = "github.com/gemmaudit/gemmaudit/"
	for pkg, forbidden := range map[string][]string{
		"kernels": {"results", "sweep", "rules", "report"},
		"results": {"sweep", "rules", "report"},
		"sweep":   {"rules", "report", "kernels/mistral", "kernels/cpu", "kernels/cuda"},
		"rules":   {"sweep", "report", "kernels/mistral", "kernels/cpu", "kernels/cuda"},
		"report":  {"sweep", "kernels/mistral", "kernels/cpu", "kernels/cuda"},
	} {
		out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, module+pkg).Output()
		if err != nil {
			t.Fatalf("%s: %v", pkg, err)
		}
		imports := strings.Fields(string(out))
		if len(imports) == 0 {
			t.Errorf("%s imports nothing at all", pkg)
		}
		for _, i := range imports {
			for _, f := range forbidden {
				if i == module+f {
					t.Errorf("%s imports %s", pkg, f)
				}
			}
		}
	}
}
