package producer

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Programs that print a line per product for people.

var (
	// llamaLine matches "MUL_MAT(type_a=f16,type_b=f32,m=4096,n=1,k=14336,bs=[1,1],…): 852 runs - 117.30
	// us/run - …".
	llamaLine = regexp.MustCompile(`^\s*(MUL_MAT\w*)\(type_a=(\w+),type_b=(\w+),(.*)\):\s+\d+ runs -\s+([0-9.]+) us/run`)
	// llamaDevice names the device of the following lines.
	llamaDevice = regexp.MustCompile(`^\s*Device description: (.+)$`)
	// deepLine matches "> Perf (m=   64, n= 2112, k= 7168, …): … | 9 us | …", in earlier versions ">
	// Performance (…): 9 us | …".
	deepLine = regexp.MustCompile(`^\s*> Perf\w* \((.*m=.*)\):(.*)$`)
	deepTime = regexp.MustCompile(`([0-9.]+) us \|`)
	sizeWord = regexp.MustCompile(`\b([a-z_]+)= *(\d+)`)
)

// sizeWords returns the sizes in a line, "m=64, n= 2112".
func sizeWords(text string) map[string]int {
	out := map[string]int{}
	for _, m := range sizeWord.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[2]); err == nil && n <= maxSize {
			out[m[1]] = n
		}
	}
	return out
}

// readLlamaBench reads the output of llama.cpp's test-backend-ops. Its m is the weights' rows, n the tokens.
func readLlamaBench(in io.Reader, take taker) error {
	device := ""
	return eachLine(in, func(line int, text string) error {
		if m := llamaDevice.FindStringSubmatch(text); m != nil {
			device = strings.TrimSpace(m[1])
			return nil
		}
		m := llamaLine.FindStringSubmatch(text)
		if m == nil {
			return nil
		}
		r, err := llamaRow(m)
		r.Device = device
		return take.row(line, r, err)
	})
}

func llamaRow(m []string) (Row, error) {
	r := Row{Kernel: "ggml", LayoutKnown: true}
	r.Subject.Layout = kernels.Transposed
	if m[1] != "MUL_MAT" {
		return r, errGrouped
	}
	weights, err := dtypeOf(m[2])
	if err != nil {
		return r, err
	}
	// fp32 activations are converted to the weights' type; fp32 weights stay fp32.
	if m[3] != "f32" && m[3] != m[2] {
		return r, errMixed
	}
	r.Subject.DType = weights
	if strings.Contains(m[4], "bs=[") && !strings.Contains(m[4], "bs=[1,1]") {
		return r, errShared
	}
	sizes := sizeWords(m[4])
	r.Subject.N, r.M, r.Subject.K = sizes["m"], sizes["n"], sizes["k"]
	if min(r.Subject.N, r.M, r.Subject.K) < 1 {
		return r, errUnknown
	}
	err = r.time(m[5], 1)
	return r, err
}

// readDeepGEMM reads the output of DeepGEMM's tests: integer microseconds of row-major products.
func readDeepGEMM(in io.Reader, take taker) error {
	return eachMatch(in, deepLine, take, deepRow)
}

func deepRow(m []string) (Row, error) {
	head, figures := m[1], m[2]
	r := Row{Kernel: "deepgemm", LayoutKnown: true}
	r.Subject.Layout = kernels.Transposed
	sizes := sizeWords(head)
	if sizes["num_groups"] > 0 {
		return r, errGrouped
	}
	if layout := strings.Index(head, "layout="); layout >= 0 && !strings.HasPrefix(head[layout:], "layout=NT") {
		return r, errors.New("its operands are not stored as linear layers have them")
	}
	r.M, r.Subject.N, r.Subject.K = sizes["m"], sizes["n"], sizes["k"]
	if min(r.M, r.Subject.N, r.Subject.K) < 1 {
		return r, errUnknown
	}
	times := deepTime.FindAllStringSubmatch(strings.Replace(figures, "launch", "", 1), -1)
	if len(times) == 0 {
		return r, errNoTime
	}
	// The host's launch time precedes the kernel's.
	err := r.time(times[len(times)-1][1], 1)
	return r, err
}
