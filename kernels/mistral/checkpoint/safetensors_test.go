package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type stored struct {
	dtype string
	shape []int
	data  []byte
}

func encode(tensors map[string]stored) []byte {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		s := tensors[name]
		header[name] = map[string]any{"dtype": s.dtype, "shape": s.shape, "data_offsets": []int{len(data), len(data) + len(s.data)}}
		data = append(data, s.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return raw(string(text), data)
}

func raw(header string, data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), data...)
}

func TestFileHoldsWhatWasWritten(t *testing.T) {
	sizes := map[string]int{"F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I64": 8}
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]stored{}
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z_.é"\\]{1,12}`), 0, 6, rapid.ID).Draw(t, "names")
		for _, name := range names {
			s := stored{
				dtype: rapid.SampledFrom(slices.Sorted(maps.Keys(sizes))).Draw(t, "dtype"),
				shape: rapid.SliceOfN(rapid.IntRange(0, 5), 0, 3).Draw(t, "shape"),
			}
			n := sizes[s.dtype]
			for _, d := range s.shape {
				n *= d
			}
			s.data = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data")
			want[name] = s
		}
		content := encode(want)
		got, err := parseFile("x", content)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d tensors, expected %d", len(got), len(want))
		}
		for name, w := range want {
			if g := got[name]; g.dtype != w.dtype || !slices.Equal(g.shape, w.shape) || !bytes.Equal(g.data, w.data) {
				t.Fatalf("%q: %v, expected %v", name, g, w)
			}
		}
		// Every truncated or extended file must be refused.
		cut := rapid.IntRange(0, len(content)-1).Draw(t, "cut")
		for _, bad := range [][]byte{content[:cut], append(slices.Clip(content), 0)} {
			if _, err := parseFile("x", bad); err == nil {
				t.Fatalf("a file of %d bytes was read with %d of them", len(content), len(bad))
			}
		}
	})
}

func TestBadFiles(t *testing.T) {
	one := func(info string) []byte { return raw(`{"a": `+info+`}`, make([]byte, 8)) }
	two := func(a, b string) []byte {
		return raw(fmt.Sprintf(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": %s}, "b": {"dtype": "F32", "shape": [1], `+
			`"data_offsets": %s}}`, a, b), make([]byte, 8))
	}
	good := `{"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}`
	if _, err := parseFile("x", one(good)); err != nil {
		t.Fatal(err)
	}
	if _, err := parseFile("x", two("[4, 8]", "[0, 4]")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "0 bytes long: too short"},
		{"seven bytes", make([]byte, 7), "7 bytes long: too short"},
		{"no header", make([]byte, 8), "no JSON object"},
		{"a header longer than the file", append([]byte{100, 0, 0, 0, 0, 0, 0, 0}, '{', '}'), "a header of 100 bytes in a file"},
		{"a huge header", append(bytes.Repeat([]byte{255}, 8), '{', '}'),
			"a header of 18446744073709551615 bytes, expected at most 100000000"},
		{"another format", []byte("GGUF\x03\x00\x00\x00 and so on"), "not a safetensors file"},
		{"a list", raw(`["a"]`, nil), "no JSON object"},
		{"cut JSON", raw(`{"a": {"dtype": "F3`, nil), "no JSON object"},
		{"no end", raw(`{"a": `+good, make([]byte, 8)), "no JSON object"},
		{"a second object", raw(`{} {}`, nil), "3 bytes after the end"},
		{"a number for a tensor", one(`3`), `tensor "a": the header says 3`},
		{"null for a tensor", one(`null`), `tensor "a": the header says null: expected dtype, shape`},
		{"no offsets", one(`{"dtype": "F32", "shape": [2]}`), "expected dtype, shape"},
		{"an unknown field", one(`{"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "strides": [1]}`), "strides"},
		{"three offsets", one(`{"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]}`), "3 data_offsets, expected 2"},
		{"backwards", one(`{"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}`), "data_offsets are [8, 0]: not a range"},
		{"before the data", one(`{"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}`), "data_offsets are [-8, 0]: not a range"},
		{"past the data", one(`{"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}`), `tensor "a": ends at byte 16`},
		{"offsets past 64 bits", one(`{"dtype": "F32", "shape": [2], "data_offsets": [0, 18446744073709551624]}`), "the header says"},
		{"a fraction", one(`{"dtype": "F32", "shape": [2.5], "data_offsets": [0, 8]}`), "the header says"},
		{"a negative shape", one(`{"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}`), "shape [-1 -2] is impossible"},
		{"a shape that overflows", one(`{"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]}`),
			"shape [4294967296 4294967296] is impossible"},
		{"bytes that overflow", one(`{"dtype": "F32", "shape": [4611686018427387906], "data_offsets": [0, 8]}`), "do not hold shape"},
		{"too few bytes", one(`{"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}`), "8 bytes of data do"},
		{"a scalar of 8 bytes", one(`{"dtype": "F32", "shape": [], "data_offsets": [0, 8]}`), "8 bytes of data do"},
		{"half a byte", raw(`{"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}`, []byte{1}), "1 bytes of data do"},
		{"the same name twice", raw(`{"a": `+good+`, "a": `+good+`}`, make([]byte, 8)), `tensor "a": in the header twice`},
		{"the same bytes twice", two("[0, 4]", "[0, 4]"), `tensor "b": begins at byte 0 of the data, inside`},
		{"an overlap",
			raw(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F16", "shape": [3], "data_offsets": [2, `+
				`8]}}`, make([]byte, 8)), `tensor "b": begins at byte 2 of the data, inside`},
		{"nothing inside of something",
			raw(`{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F16", "shape": [0], "data_offsets": [4, `+
				`4]}}`, make([]byte, 8)), `inside of tensor "a"`},
		{"a hole", raw(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}`, make([]byte, 8)),
			`tensor "a": begins at byte 4 of the data, where`},
		{"bytes at the end", one(`{"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}`), "the tensors end"},
	} {
		_, err := parseFile("m.safetensors", test.content)
		var typed *Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "m.safetensors: ") {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.want)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F16", "shape": [2, 1], "data_offsets": `+
		`[4, 8]}}  `), make([]byte, 8))
	f.Add([]byte(`{"__metadata__": {"a": "b"}, "a": {"dtype": "X", "shape": [0, 7], "data_offsets": [0, 0]}}`), []byte{})
	f.Add([]byte(`{"a": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}}`), make([]byte, 3))
	f.Fuzz(func(t *testing.T, header, data []byte) {
		tensors, err := parseFile("x", raw(string(header), data))
		if err != nil {
			var typed *Error
			if !errors.As(err, &typed) {
				t.Fatalf("%T", err)
			}
			return
		}
		total := 0
		for name, e := range tensors {
			total += len(e.data)
			if bits, known := elementBits[e.dtype]; known {
				n := int(bits)
				for _, d := range e.shape {
					n *= d
				}
				if n != 8*len(e.data) {
					t.Fatalf("%q: %v of %s in %d bytes", name, e.shape, e.dtype, len(e.data))
				}
			}
		}
		if total != len(data) {
			t.Fatalf("tensors of %d bytes in data of %d", total, len(data))
		}
	})
}

func TestOpenFileNamesWhatItCannotMap(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("abc"), 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent"): "absent: can't be opened: ",
		dir:                          ": not a file",
		short:                        "short: 3 bytes long: too short",
	} {
		f, err := openFile(path)
		if f != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", path, err, want)
		}
	}
}
