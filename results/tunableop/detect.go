package tunableop

import (
	"bytes"
	"path/filepath"
)

// Detect reports whether a file starts like TunableOp's. A CSV with a damaged start counts too, so the
// errors in its lines are reported.
func Detect(path string, start []byte) bool {
	start = bytes.TrimPrefix(start, []byte("\ufeff"))
	for _, word := range []string{"Validator,", "Gemm", "ScaledGemm"} {
		if bytes.HasPrefix(start, []byte(word)) {
			return true
		}
	}
	json := bytes.HasPrefix(bytes.TrimSpace(start), []byte("{"))
	return filepath.Ext(path) == ".csv" && len(start) > 0 && !json && !bytes.HasPrefix(start, []byte("kernel,dtype"))
}
