//go:build !unix

package checkpoint

import (
	"io"
	"os"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, err
}

func unmapFile([]byte) error { return nil }
