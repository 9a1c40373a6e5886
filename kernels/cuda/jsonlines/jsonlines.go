// Package jsonlines reads files of one JSON object per line, with a header line.
package jsonlines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Read reads the first line as an H and each further one as a T, rejects unknown fields, and checks each
// value as it is read. Lines are limited to most bytes. Errors name the line. A file without a T is an error
// that gives what was expected; the head is still returned.
func Read[H, T any](r io.Reader, most int, expected string, checkHead func(H) error, check func(T) error) (head H, items []T, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, most)
	n := 0
	for lines.Scan() {
		n++
		if n == 1 {
			err = read(lines.Bytes(), &head, checkHead)
		} else {
			var item T
			err = read(lines.Bytes(), &item, check)
			items = append(items, item)
		}
		if err != nil {
			return head, nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return head, nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if len(items) == 0 {
		return head, nil, fmt.Errorf("%d lines, expected %s", n, expected)
	}
	return head, items, nil
}

func read[T any](line []byte, to *T, check func(T) error) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one object")
	}
	return check(*to)
}
