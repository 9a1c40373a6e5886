package report

import (
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// jsonOptions make the same bytes as encoding/json's encoder with an indent of two spaces, without escapes for HTML. Unlike it, the
// encoder writes while it encodes: the verdicts of a large run are hundreds of megabytes of text, too much to keep in memory at once.
var jsonOptions = json.JoinOptions(v1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.WithIndent("  "))

// writeJSON writes a value as indented JSON and ends the line.
func writeJSON(w io.Writer, v any) error {
	if err := json.MarshalWrite(w, v, jsonOptions); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
