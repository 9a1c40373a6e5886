package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// A safetensors file is the header's length (8 bytes, little-endian), the header (a JSON object with each
// tensor's type, shape, and first and last+1 byte in the data), and the data, which tensors cover without
// gaps. See the README of github.com/safetensors/safetensors.
const (
	headerStart = 8
	maxHeader   = 100_000_000 // as in the reference implementation
)

var elementBits = map[string]int64{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I16": 16, "U16": 16, "F16": 16, "BF16": 16,
	"I32": 32, "U32": 32, "F32": 32,
	"I64": 64, "U64": 64, "F64": 64, "C64": 64,
}

var readable = map[string]kernels.DType{"F32": kernels.FP32, "F16": kernels.FP16, "BF16": kernels.BF16}

type entry struct {
	dtype string
	shape []int
	data  []byte
}

type file struct {
	path    string
	mapped  []byte
	tensors map[string]entry
}

func openFile(path string) (*file, error) {
	info, err := os.Stat(path) // before opening, which would wait for a pipe's writer
	switch {
	case err != nil:
		return nil, regular.SystemError(path, "can't be opened", err)
	case !info.Mode().IsRegular():
		return nil, refusef(path, "not a file")
	case info.Size() < headerStart:
		return nil, refusef(path, "%d bytes long: too short for a safetensors file", info.Size())
	case info.Size() > math.MaxInt:
		return nil, refusef(path, "%d bytes long: more than this machine can address", info.Size())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, regular.SystemError(path, "can't be opened", err)
	}
	defer f.Close() // the mapping stays valid
	mapped, err := mapFile(f, int(info.Size()))
	if err != nil {
		return nil, regular.SystemError(path, "can't be mapped", err)
	}
	tensors, err := parseFile(path, mapped)
	if err != nil {
		unmapFile(mapped)
		return nil, err
	}
	return &file{path, mapped, tensors}, nil
}

func (f *file) close() error {
	if f.mapped == nil {
		return nil
	}
	err := unmapFile(f.mapped)
	f.mapped, f.tensors = nil, nil
	if err != nil {
		return regular.SystemError(f.path, "can't be unmapped", err)
	}
	return nil
}

type placed struct {
	name       string
	begin, end int64
}

// parseFile checks a whole file and returns its tensors, whose data are slices of it.
func parseFile(path string, content []byte) (map[string]entry, error) {
	if len(content) < headerStart {
		return nil, refusef(path, "%d bytes long: too short for a safetensors file", len(content))
	}
	length := binary.LittleEndian.Uint64(content)
	rest := content[headerStart:]
	switch {
	case length > maxHeader:
		return nil, refusef(path, "a header of %d bytes, expected at most %d: not a safetensors file", length, maxHeader)
	case length > uint64(len(rest)):
		return nil, refusef(path, "a header of %d bytes in a file of %d: truncated", length, len(content))
	}
	header, data := rest[:length], rest[length:]
	if len(header) == 0 || header[0] != '{' {
		return nil, refusef(path, "the header is no JSON object: not a safetensors file")
	}
	d := json.NewDecoder(bytes.NewReader(header))
	d.Token() // the brace
	tensors := map[string]entry{}
	var places []placed
	for d.More() {
		key, err := d.Token()
		var info json.RawMessage
		if err == nil {
			err = d.Decode(&info)
		}
		if err != nil {
			return nil, refusef(path, "the header is no JSON object: %v", err)
		}
		name, _ := key.(string) // Token guarantees that keys are strings
		if name == "__metadata__" {
			continue // notes for people
		}
		if _, twice := tensors[name]; twice {
			return nil, &Error{Path: path, Tensor: name, Reason: "in the header twice"}
		}
		e, place, err := parseEntry(info, data)
		if err != nil {
			return nil, &Error{Path: path, Tensor: name, Reason: err.Error()}
		}
		place.name = name
		tensors[name] = e
		places = append(places, place)
	}
	if _, err := d.Token(); err != nil {
		return nil, refusef(path, "the header is no JSON object: %v", err)
	}
	if after := bytes.TrimRight(header[d.InputOffset():], " "); len(after) != 0 {
		return nil, refusef(path, "%d bytes after the end of the header's JSON", len(after))
	}
	return tensors, checkCover(path, places, int64(len(data)))
}

// parseEntry reads a tensor's header entry. It checks numbers against the data's length before use.
func parseEntry(info, data []byte) (entry, placed, error) {
	var raw struct {
		DType   *string  `json:"dtype"`
		Shape   *[]int64 `json:"shape"`
		Offsets *[]int64 `json:"data_offsets"`
	}
	d := json.NewDecoder(bytes.NewReader(info))
	d.DisallowUnknownFields()
	if err := d.Decode(&raw); err != nil {
		return entry{}, placed{}, fmt.Errorf("the header says %s: %w", brief(info), err)
	}
	if raw.DType == nil || raw.Shape == nil || raw.Offsets == nil {
		return entry{}, placed{}, fmt.Errorf("the header says %s: expected dtype, shape and data_offsets", brief(info))
	}
	if len(*raw.Offsets) != 2 {
		return entry{}, placed{}, fmt.Errorf("%d data_offsets, expected 2", len(*raw.Offsets))
	}
	begin, end := (*raw.Offsets)[0], (*raw.Offsets)[1]
	switch {
	case begin < 0 || end < begin:
		return entry{}, placed{}, fmt.Errorf("data_offsets are [%d, %d]: not a range", begin, end)
	case end > int64(len(data)):
		return entry{}, placed{}, fmt.Errorf("ends at byte %d, but the data have only %d: truncated", end, len(data))
	}
	elements := int64(1)
	shape := make([]int, len(*raw.Shape))
	for i, n := range *raw.Shape {
		if n < 0 || n > math.MaxInt || elements != 0 && n > math.MaxInt64/elements {
			return entry{}, placed{}, fmt.Errorf("shape %v is impossible", *raw.Shape)
		}
		elements *= n
		shape[i] = int(n)
	}
	// Unknown types of later format versions are an error only when the tensor is requested.
	if bits, known := elementBits[*raw.DType]; known {
		if elements > math.MaxInt64/bits || elements*bits%8 != 0 || elements*bits/8 != end-begin {
			return entry{}, placed{}, fmt.Errorf("%d bytes of data do not hold shape %v of %s", end-begin, shape, *raw.DType)
		}
	}
	return entry{*raw.DType, shape, data[begin:end:end]}, placed{begin: begin, end: end}, nil
}

// checkCover checks that each byte of the data belongs to exactly one tensor.
func checkCover(path string, places []placed, length int64) error {
	slices.SortFunc(places, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	var last placed
	for _, p := range places {
		switch {
		case p.begin < last.end:
			return &Error{Path: path, Tensor: p.name,
				Reason: fmt.Sprintf("begins at byte %d of the data, inside of tensor %q", p.begin, last.name)}
		case p.begin > last.end:
			return &Error{Path: path, Tensor: p.name,
				Reason: fmt.Sprintf("begins at byte %d of the data, where byte %d is the next: a hole", p.begin, last.end)}
		}
		last = p
	}
	if last.end != length {
		return refusef(path, "the tensors end at byte %d, but the data have %d", last.end, length)
	}
	return nil
}
