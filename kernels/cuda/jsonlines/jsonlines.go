// Package jsonlines reads files of one JSON object a line, of which the first tells of all others.
package jsonlines

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Read reads the first line as an H and each further one as a T, without fields that these lack, and has each checked
// as it is read; no line may have more than most bytes. An error names the line. Without a T there is one that says
// what was expected; the head is returned all the same.
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

// read reads one object and checks it.
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
