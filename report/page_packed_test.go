package report

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"io"
	"path/filepath"
	"regexp"
	"testing"
)

func packedOf(t testing.TB, in Input) string {
	t.Helper()
	var b bytes.Buffer
	p := newPage(in, nil)
	if err := packed(&b, p.title, func(w io.Writer) error { return p.html(w, newInteractive(in)) }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A compressed page must unpack to the page byte for byte, be smaller, and be recognized as a report.
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
