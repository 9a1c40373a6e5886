package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var types = []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16}

func tensor(dtype kernels.DType, data []byte) Tensor {
	return Tensor{Name: "w", DType: dtype, Shape: []int{len(data) / dtype.Size()}, Data: data, path: "model.safetensors"}
}

func every(skip func(uint16) bool) []byte {
	var out []byte
	for h := range 1 << 16 {
		if !skip(uint16(h)) {
			out = binary.LittleEndian.AppendUint16(out, uint16(h))
		}
	}
	return out
}

// reference converts element by element via binary64.
func reference(t interface{ Fatal(...any) }, from, to kernels.DType, data []byte) []byte {
	values := make([]float64, len(data)/from.Size())
	out := make([]byte, len(values)*to.Size())
	if err := errors.Join(kernels.Decode(from, data, values), kernels.Encode(to, values, out)); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAsConvertsEveryValue(t *testing.T) {
	beyondFP16 := func(h uint16) bool {
		x := kernels.DecodeBF16(h)
		return math.IsInf(kernels.DecodeFP16(kernels.EncodeFP16(x)), 0) && !math.IsInf(x, 0)
	}
	none := func(uint16) bool { return false }
	nan16 := func(h uint16) bool { return h&0x7fff > 0x7c00 } // payloads are not compared
	for _, test := range []struct {
		from, to kernels.DType
		data     []byte
	}{
		{kernels.BF16, kernels.FP16, every(beyondFP16)},
		{kernels.FP16, kernels.BF16, every(none)},
		{kernels.FP16, kernels.FP32, every(nan16)},
		{kernels.BF16, kernels.FP32, every(func(h uint16) bool { return h&0x7fff > 0x7f80 })},
	} {
		// At an odd address, and longer than one goroutine's chunk.
		data := bytes.Repeat(test.data, 9)
		data = append([]byte{0}, data...)[1:]
		got, err := tensor(test.from, data).As(test.to)
		if err != nil {
			t.Errorf("%s to %s: %v", test.from, test.to, err)
		} else if !bytes.Equal(got, reference(t, test.from, test.to, data)) {
			t.Errorf("%s to %s: not what one by one gives", test.from, test.to)
		}
	}
}

func TestAsRoundsFP32(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		to := rapid.SampledFrom([]kernels.DType{kernels.FP16, kernels.BF16}).Draw(t, "to")
		// Exponents near the small type's, and mantissas near its ties.
		exponent := rapid.OneOf(rapid.Uint32Range(90, 145), rapid.Uint32Range(0, 255)).Draw(t, "exponent")
		mantissa := rapid.OneOf(rapid.Uint32Range(0, 1<<23-1),
			rapid.Custom(func(t *rapid.T) uint32 {
				tie := rapid.Uint32Range(0, 1<<8-1).Draw(t, "tie") << 15 >> rapid.IntRange(0, 4).Draw(t, "shift")
				return (tie + rapid.Uint32Range(0, 2).Draw(t, "near") - 1) & (1<<23 - 1)
			})).Draw(t, "mantissa")
		bits := rapid.Uint32Range(0, 1).Draw(t, "sign")<<31 | exponent<<23 | mantissa
		x := float64(math.Float32frombits(bits))
		data := binary.LittleEndian.AppendUint32(nil, bits)
		want := reference(t, kernels.FP32, to, data)
		got, err := tensor(kernels.FP32, data).As(to)
		var value [1]float64
		if e := kernels.Decode(to, want, value[:]); e != nil {
			t.Fatal(e)
		}
		if math.IsInf(value[0], 0) && !math.IsInf(x, 0) {
			if err == nil {
				t.Fatalf("%g became %x", x, got)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if math.IsNaN(x) {
			if kernels.Decode(to, got, value[:]); !math.IsNaN(value[0]) {
				t.Fatalf("NaN became %g", value[0])
			}
		} else if !bytes.Equal(got, want) {
			t.Fatalf("%g as %s: %x, expected %x", x, to, got, want)
		}
	})
}

func TestAsOverflow(t *testing.T) {
	const n = 3*convertChunk + 5
	for _, test := range []struct {
		from, to kernels.DType
		value    float64
		want     string
	}{
		{kernels.BF16, kernels.FP16, 65536, "65536, beyond fp16"},
		{kernels.BF16, kernels.FP16, -1e38, "beyond fp16"},
		{kernels.FP32, kernels.FP16, 65520, "65520, beyond fp16"},
		{kernels.FP32, kernels.BF16, -math.MaxFloat32, "-3.4028234663852886e+38, beyond bf16"},
	} {
		for _, at := range []int{0, convertChunk - 1, convertChunk, n - 1} {
			values := make([]float64, n)
			values[at], values[n-1] = test.value, test.value // the first is named
			data := make([]byte, n*test.from.Size())
			if err := kernels.Encode(test.from, values, data); err != nil {
				t.Fatal(err)
			}
			_, err := tensor(test.from, data).As(test.to)
			var typed *Error
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), test.want) || typed.HintText() == "" ||
				!strings.Contains(err.Error(), `model.safetensors: tensor "w": element `+strconv.Itoa(at)+" is ") {
				t.Errorf("element %d: %v, expected %q", at, err, test.want)
			}
		}
	}
	for _, from := range types {
		data := make([]byte, from.Size())
		if err := kernels.Encode(from, []float64{math.Inf(-1)}, data); err != nil {
			t.Fatal(err)
		}
		for _, to := range types {
			if _, err := tensor(from, data).As(to); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAsItself(t *testing.T) {
	data := []byte{1, 2, 3, 4}
	for _, dtype := range types {
		if got, err := tensor(dtype, data).As(dtype); err != nil || &got[0] != &data[0] {
			t.Errorf("%s was copied: %v", dtype, err)
		}
		if got, err := tensor(dtype, nil).As(kernels.FP16); err != nil || len(got) != 0 {
			t.Errorf("no elements of %s became %v: %v", dtype, got, err)
		}
	}
	if _, err := tensor(kernels.FP16, data).As(kernels.INT8); err == nil ||
		!strings.Contains(err.Error(), "no conversion from fp16 to int8") {
		t.Errorf("to int8: %v", err)
	}
	if _, err := tensor(kernels.FP32, data[:3]).As(kernels.FP16); err == nil || !strings.Contains(err.Error(), "3 bytes") {
		t.Errorf("three bytes of fp32: %v", err)
	}
}

func BenchmarkAs(b *testing.B) {
	const n = 64 << 20
	for _, from := range types {
		values := make([]float64, 1<<16)
		for i := range values {
			values[i] = 0.02 * math.Sin(float64(i*i))
		}
		block := make([]byte, len(values)*from.Size())
		if err := kernels.Encode(from, values, block); err != nil {
			b.Fatal(err)
		}
		data := bytes.Repeat(block, n/len(values))
		for _, to := range types {
			if from == to {
				continue
			}
			b.Run(string(from+"-"+to), func(b *testing.B) {
				b.SetBytes(int64(n * (from.Size() + to.Size())))
				for b.Loop() {
					if _, err := tensor(from, data).As(to); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds()/1e9, "Gelem/s")
			})
		}
	}
}
