// Package jsonlines reads files of one JSON object a line, of which the first tells of all others.
package jsonlines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Read gives the first line to head and each further one to item; no line may have more than most bytes. It returns
// how many lines there are. An error names the line.
func Read(r io.Reader, most int, head, item func(line []byte) error) (n int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, most)
	for take := head; lines.Scan(); take = item {
		n++
		if err := take(lines.Bytes()); err != nil {
			return n, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return n, fmt.Errorf("line %d: %w", n+1, err)
	}
	return n, nil
}

// Decode reads one object, without fields that to lacks.
func Decode(line []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one object")
	}
	return nil
}
