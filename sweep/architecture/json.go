package architecture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readObject reads Python's JSON, with NaN, Infinity and -Infinity. Numbers that are no integers up to
// maxValue stay strings.
func readObject(data []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(standard(data)))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("not a JSON object: something follows it")
	}
	if object == nil {
		return nil, fmt.Errorf("not a JSON object: null")
	}
	return plain(object).(map[string]any), nil
}

// plain replaces the integers in a decoded value.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.Atoi(v.String()); err == nil && i <= maxValue && i >= -maxValue {
			return i
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
	}
	return v
}

// The replacements are out of range, so no count can equal them.
var pythonNumbers = []struct{ python, json string }{
	{"-Infinity", "-1e999"}, {"Infinity", "1e999"}, {"NaN", "1e-999"},
}

func standard(data []byte) []byte {
	if !bytes.Contains(data, []byte("Infinity")) && !bytes.Contains(data, []byte("NaN")) {
		return data
	}
	var out bytes.Buffer
	quoted := false
next:
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\' && i+1 < len(data):
			out.WriteByte(c)
			i++
		case c == '"':
			quoted = !quoted
		case !quoted:
			for _, p := range pythonNumbers {
				if bytes.HasPrefix(data[i:], []byte(p.python)) {
					out.WriteString(p.json)
					i += len(p.python) - 1
					continue next
				}
			}
		}
		out.WriteByte(data[i])
	}
	return out.Bytes()
}

// brief truncates long values and uses Python's spelling of numbers.
func brief(v any) string {
	const most = 80
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprintf("a %T", v)
	}
	s := strings.TrimSpace(text.String())
	for _, p := range pythonNumbers {
		s = strings.ReplaceAll(s, p.json, p.python)
	}
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// counts reports whether a value contains a number or true, which may change a shape.
func counts(v any) bool {
	switch v := v.(type) {
	case json.Number, int:
		return true
	case bool:
		return v
	case []any:
		for _, e := range v {
			if counts(e) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if counts(e) {
				return true
			}
		}
	}
	return false
}
