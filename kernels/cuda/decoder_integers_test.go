//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

func init() { scenarios["integers"] = integersDecode }

func integersDecode() {
	devices, missing := Provider{}.Open()
	if len(devices) == 0 {
		fmt.Println(missing)
		return
	}
	d := devices[0]
	c, err := checkpoint.Open("../mistral/testdata/mistral")
	report(err)
	if err != nil {
		return
	}
	for _, weights := range []string{"int4:32", "int4:32:zero", "int8:column", "int8:32:zero"} {
		q, err := kernels.ParseWeights(weights)
		report(err)
		for _, dtype := range []kernels.DType{kernels.FP16, kernels.BF16, kernels.FP32} {
			report(decodeOnce(d, c, q, dtype))
		}
	}
	report(c.Close(), d.Close())
	fmt.Println("done")
}

func decodeOnce(d kernels.Device, c *checkpoint.Checkpoint, q kernels.WeightFormat, dtype kernels.DType) error {
	ctx := context.Background()
	m, err := mistral.Load(ctx, d, c, mistral.Options{DType: dtype, Weights: &q})
	if err != nil {
		return err
	}
	s, err := m.NewSession(mistral.SessionOptions{Positions: 8})
	if err != nil {
		return errors.Join(err, m.Close())
	}
	_, prefill := s.Prefill(ctx, []int32{1, 2, 3})
	_, _, decode := s.Decode(ctx, 4, 2)
	fmt.Printf("%v in %s: fused %v, %d bytes\n", m.Weights(), dtype, s.Fused(), m.Bytes())
	return errors.Join(prefill, decode, s.Close(), m.Close())
}

// Integer weights are packed, bound and launched: fused on a GPU of 9.0, one launch per operation on others
// from 8.0. A type without a kernel is refused.
func TestDecoderOfIntegers(t *testing.T) {
	dir := fakeDriver(t)
	for _, c := range []struct {
		capability string
		fused      bool
	}{{"90", true}, {"80", false}} {
		out, _ := child(t, "integers", dir, "FAKE_CUDA_CAPABILITY="+c.capability)
		formats := []string{"int4:32", "int4:32:zero", "int8:column", "int8:32:zero"}
		for _, weights := range formats {
			for _, dtype := range []string{"fp16", "bf16"} {
				if want := fmt.Sprintf("%s in %s: fused %v, ", weights, dtype, c.fused); !strings.Contains(out, want) {
					t.Errorf("%s: no %q in\n%s", c.capability, want, out)
				}
			}
		}
		for _, weights := range formats {
			if want := fmt.Sprintf("error: kernel auto does not support fp32 with weights %s: ", weights); strings.Count(out, want) != 1 {
				t.Errorf("%s: not once %q in\n%s", c.capability, want, out)
			}
		}
		if n := strings.Count(out, "error: "); n != len(formats) || !strings.HasSuffix(out, "done\n") {
			t.Errorf("%s: %d errors, expected one of fp32 per format:\n%s", c.capability, n, out)
		}
	}
}
