package report

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// packedOf is the compressed page of a report as text.
func packedOf(t testing.TB, in Input) string {
	t.Helper()
	var b bytes.Buffer
	p := newPage(in, nil)
	if err := packed(&b, p.title, func(w io.Writer) error { return p.html(w, newInteractive(in)) }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A compressed page holds the page byte for byte, is smaller, and is taken for a report.
func TestCompressedPage(t *testing.T) {
	in := manySamples(2, 400, 9)
	plain, small := pageOf(t, in), packedOf(t, in)
	m := regexp.MustCompile(`id="packed">([^<]*)<`).FindStringSubmatch(small)
	if m == nil {
		t.Fatalf("the page is %.300q", small)
	}
	raw, err := base64.StdEncoding.DecodeString(m[1])
	if err != nil {
		t.Fatal(err)
	}
	unpack, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if held, err := io.ReadAll(unpack); err != nil || string(held) != plain {
		t.Errorf("%d bytes are held, the page has %d: %v", len(held), len(plain), err)
	}
	if len(small) > len(plain)*6/10 {
		t.Errorf("%d bytes of %d", len(small), len(plain))
	}
	if again := packedOf(t, manySamples(2, 400, 9)); again != small {
		t.Error("the same data makes another page")
	}
	in.Compress = true
	dir := filepath.Join(t.TempDir(), "report")
	if err := Write(context.Background(), dir, in, []Image{SVG}); err != nil {
		t.Fatal(err)
	}
	if own, err := Replaceable(dir); err != nil || !own || read(t, dir, "index.html") == plain {
		t.Errorf("replaceable %v, %v; or the page is not compressed", own, err)
	}
}

// until waits for an expression to be true.
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

// drawn is true once a page has drawn its findings.
const drawn = `typeof listFindings === 'function' && document.getElementById('found-count').textContent !== ''`

// galleryBytes is how large a page of the gallery may be.
const galleryBytes = 2_000_000

// A compressed page becomes the page in a browser, whatever its names; and so does each of the gallery, of which none is large.
// The largest that the gallery is for is made here: two products by two kernels, 1024 M, 9 samples.
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
			b.holds(`document.querySelectorAll('#findings tbody tr').length === Math.min(pageOf, data.findings.length) && document.querySelectorAll('#lines canvas').length === 1`)
			b.holds(`document.querySelector('meta[http-equiv="Content-Security-Policy"]') !== null && document.title.startsWith('GEMM audit of ')`)
			b.quiet()
		})
	}
	// What is broken says so.
	broken := filepath.Join(dir, "broken.html")
	text := packedOf(t, fixtureInput())
	if err := os.WriteFile(broken, []byte(strings.Replace(text, `id="packed">H4sI`, `id="packed">H5sI`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, browser, fmt.Sprintf("file://%s", broken))
	b.until(`/could not be unpacked/.test(document.getElementById('unpacking').textContent)`)
	b.quiet()
}
