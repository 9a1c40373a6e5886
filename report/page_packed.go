package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
)

const packScript = "unpack.js"

// packed writes the page from write as a compressed HTML file, a quarter of the size, that unpacks itself
// when opened. It declares the page's content security policy, because a document's policy also governs
// content written into it.
func packed(out io.Writer, title string, write func(io.Writer) error) error {
	var b bytes.Buffer
	base := base64.NewEncoder(base64.StdEncoding, &b)
	// The gzip header has no time and no name, so equal pages give equal bytes.
	pack, err := gzip.NewWriterLevel(base, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := write(pack); err != nil {
		return err
	}
	if err := pack.Close(); err != nil {
		return err
	}
	if err := base.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out,
		"%s<title>%s</title>\n</head>\n<body>\n<p id=\"unpacking\">Unpacking the page.</p>\n"+
			"<noscript><p>This page is compressed and needs JavaScript.</p></noscript>\n"+
			"<script type=\"text/plain\" id=\"packed\">%s</script>\n<script>%s</script>\n</body>\n</html>\n", runKit.head(packScript),
		forHTML(title), b.Bytes(), pageFile(packScript))
	return err
}
