//go:build !unix

package checkpoint

import (
	"io"
	"os"
)

// mapFile reads the size bytes of a file, where files can't be mapped.
func mapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, err
}

// unmapFile leaves the memory to the garbage collector.
func unmapFile([]byte) error { return nil }
