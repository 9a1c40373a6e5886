//go:build browser

package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func (b *tab) until(expression string) {
	b.t.Helper()
	var last error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var is bool
		if last = chromedp.Run(b.ctx, chromedp.Evaluate(expression, &is)); last == nil && is {
			return
		}
	}
	b.t.Fatalf("never so: %s: %v", expression, last)
}

const drawn = `typeof listFindings === 'function' && document.getElementById('found-count').textContent !== ''`

const galleryBytes = 2_000_000

// A compressed page must become the page in a browser, also with hostile names, and every gallery page must
// stay small. The test makes the largest gallery page: two products, two kernels, 1024 M, 9 samples.
func TestCompressedPagesInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser is started")
	}
	browser := startBrowser(t)
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "hostile.html"), filepath.Join(dir, "large.html")}
	for i, in := range []Input{executed(hostileInput()), manySamples(4, 1024, 9)} {
		if err := os.WriteFile(paths[i], []byte(packedOf(t, in)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gallery, err := filepath.Glob("../docs/gallery/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, gallery...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > galleryBytes {
				t.Errorf("%d bytes, expected at most %d", info.Size(), galleryBytes)
			}
			absolute, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			b := open(t, browser, "file://"+absolute+"#sort=loss&order=down")
			b.until(drawn)
			b.holds(`state.sort === 'loss' && data.series.length > 0 && document.getElementById('unpacking') === null`)
			b.holds(`document.querySelectorAll('#findings tbody tr').length === Math.min(pageOf, data.findings.length) && ` +
				`document.querySelectorAll('#lines canvas').length === 1`)
			b.holds(`document.querySelector('meta[http-equiv="Content-Security-Policy"]') !== null && document.title.startsWith('GEMM ` +
				`audit of ')`)
			b.quiet()
		})
	}
	// A corrupt page must show an error.
	broken := filepath.Join(dir, "broken.html")
	text := packedOf(t, fixtureInput())
	if err := os.WriteFile(broken, []byte(strings.Replace(text, `id="packed">H4sI`, `id="packed">H5sI`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, browser, fmt.Sprintf("file://%s", broken))
	b.until(`/could not be unpacked/.test(document.getElementById('unpacking').textContent)`)
	b.quiet()
}
