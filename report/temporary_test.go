package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A report with PDF must need no folder for temporary files and not leave any. Fonts are cached in
// memory, so the test uses another process.
func TestNoTemporaryFolder(t *testing.T) {
	const variable = "GEMMAUDIT_TEST_REPORT"
	if dir := os.Getenv(variable); dir != "" {
		if err := Write(t.Context(), dir, Input{Series: fixtureSeries(), Audit: fixtureAudit()}, []Image{PDF}); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "report")
	missing := filepath.Join(t.TempDir(), "missing")
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestNoTemporaryFolder$")
	c.Env = append(os.Environ(), variable+"="+dir, "TMPDIR="+missing)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	plots, err := filepath.Glob(filepath.Join(dir, plotsDir, "*"))
	if err != nil || len(plots) == 0 {
		t.Fatalf("plots %v, %v", plots, err)
	}
	for _, path := range plots {
		if filepath.Ext(path) != ".pdf" {
			t.Errorf("%s is left", path)
		}
	}
}
