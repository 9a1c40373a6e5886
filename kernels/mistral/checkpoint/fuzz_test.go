package checkpoint

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Mutates config.json, the safetensors header or the data of GPTQ, AWQ and compressed-tensors models.
func FuzzPacked(f *testing.F) {
	type model struct{ config, header, data []byte }
	var models []model
	for i, name := range quantizedFixtures {
		config, err := os.ReadFile(filepath.Join("testdata", name, configFile))
		if err != nil {
			f.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join("testdata", name, singleFile))
		if err != nil {
			f.Fatal(err)
		}
		n := binary.LittleEndian.Uint64(content)
		header, data := content[headerStart:headerStart+n], content[headerStart+n:]
		models = append(models, model{config, header, data})
		f.Add(uint8(i), "", "", "", "", uint32(0), []byte(nil))
		f.Add(uint8(i), "32", "64", "", "", uint32(0), []byte(nil))
		f.Add(uint8(i), "", "", "I32", "F32", uint32(8), []byte{0, 1, 255})
		f.Add(uint8(i), "", "", "qzeros", "scales", uint32(4), []byte{255, 255})
		f.Add(uint8(i), `"bits"`, `"w_bit"`, "[0,", "[1,", uint32(1<<16), []byte{1})
	}
	f.Fuzz(func(t *testing.T, which uint8, inConfig, config, inHeader, header string, at uint32, patch []byte) {
		m := models[int(which)%len(models)]
		change := func(text []byte, old, new string) string {
			if old == "" || len(new) > 1<<10 {
				return string(text)
			}
			return strings.Replace(string(text), old, new, 4)
		}
		data := append([]byte(nil), m.data...)
		copy(data[int(at)%len(data):], patch)
		dir := t.TempDir()
		for name, content := range map[string][]byte{
			configFile: []byte(change(m.config, inConfig, config)), singleFile: raw(change(m.header, inHeader, header), data),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Open(dir)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		defer c.Close()
		for _, w := range c.Config().Weights() {
			tensor, err := c.Tensor(w.Name, w.Shape...)
			if err != nil {
				checkRefusal(t, err)
				continue
			}
			elements := 1
			for _, n := range w.Shape {
				elements *= n
			}
			if elements*tensor.DType.Size() != len(tensor.Data) {
				t.Fatalf("%s: %v of %s in %d bytes", w.Name, tensor.Shape, tensor.DType, len(tensor.Data))
			}
			if len(w.Shape) != 2 {
				continue
			}
			q, err := c.Quantized(w.Name, w.Shape[0], w.Shape[1])
			if err != nil {
				checkRefusal(t, err)
				continue
			}
			if (q != nil) != c.Packed(w.Name) {
				t.Fatalf("%s: integers %t, packed %t", w.Name, q != nil, c.Packed(w.Name))
			}
			if q == nil {
				continue
			}
			for i, v := range q.Values {
				if int(v) >= 1<<q.Bits {
					t.Fatalf("%s: value %d is %d in %d bits", w.Name, i, v, q.Bits)
				}
			}
			for _, to := range []kernels.DType{kernels.FP16, kernels.BF16} {
				if _, err := q.ScalesAs(to); err != nil {
					checkRefusal(t, err)
				}
			}
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var typed *Error
	if !errors.As(err, &typed) {
		t.Fatalf("%T: %v", err, err)
	}
	if strings.ContainsAny(err.Error(), "\n\r") {
		t.Fatalf("%q is not one line", err)
	}
}
