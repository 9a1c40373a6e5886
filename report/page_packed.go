package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
)

// packScript unpacks a compressed page in the browser.
const packScript = "unpack.js"

// packed writes a page that write writes as one that holds it compressed and unpacks itself when it is opened. It is a file of HTML
// like the other, a quarter of its size, and has its policy: that of a document holds for all that is written into it.
func packed(out io.Writer, title string, write func(io.Writer) error) error {
	var b bytes.Buffer
	base := base64.NewEncoder(base64.StdEncoding, &b)
	// gzip has no time and no name in it: the same page is the same bytes.
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
	_, err = fmt.Fprintf(out, "%s<title>%s</title>\n</head>\n<body>\n<p id=\"unpacking\">Unpacking the page.</p>\n<noscript><p>This page is compressed and needs JavaScript.</p></noscript>\n"+
		"<script type=\"text/plain\" id=\"packed\">%s</script>\n<script>%s</script>\n</body>\n</html>\n", runKit.head(packScript), forHTML(title), b.Bytes(), pageFile(packScript))
	return err
}
