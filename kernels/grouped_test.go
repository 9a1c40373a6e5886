package kernels

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func groupedTask(t *testing.T, m int, d DType, dims Dims, format string) Task {
	t.Helper()
	f, err := ParseWeights(format)
	if err == nil {
		f, err = f.For(d, dims.K)
	}
	if err != nil {
		t.Fatal(err)
	}
	task := Task{Subject: Subject{Operation: GroupedGEMM, DType: d, Dims: dims, Layout: Transposed, Weights: f}, M: m}
	if task, err = task.Normalized(); err != nil {
		t.Fatal(err)
	}
	return task
}

func TestQuantizedGroupSizes(t *testing.T) {
	dims := Dims{N: 200, K: 384, Groups: 4}
	for _, c := range []struct {
		format  string
		dtype   DType
		group   int64   // raw weights of a group
		read    float64 // bytes of one group's weights and scales
		scales  int64   // bytes of the scales of a row
		in      int64   // elements from the first of A to the last scale, of 6 rows
		scaleAt int
	}{
		{"fp8:128x128", FP8, 200*384 + 32, 200*384 + 2*3*4, 12, 6*384 + 4*(2*8+6), 6 * 384},
		{"fp8:column", FP8, 200*384 + 800, 200*384 + 800, 4, 6*384 + 4*6, 6 * 384},
		{"int4:128", BF16, 200*192 + 1200, 200*192 + 1200, 0, 6 * 384, 0},
		{"int4:128:zero", FP16, 200*192 + 1200 + 304, 200*192 + 1200 + 300, 0, 6 * 384, 0},
	} {
		task := groupedTask(t, 6, c.dtype, dims, c.format)
		in, stored, out := task.Extents()
		if in != c.in || stored != 4*c.group || stored != task.Stored(6) || out != 1200 || task.ScalesAt != c.scaleAt {
			t.Errorf("%s: extents %d, %d and %d, scales at %d", c.format, in, stored, out, task.ScalesAt)
		}
		// Two of the four groups have rows if M is 2.
		if got := task.StoredBytes(2); got != 2*c.read {
			t.Errorf("%s: a launch reads %g bytes of weights, expected %g", c.format, got, 2*c.read)
		}
		size := int64(c.dtype.Size())
		if got, want := task.InputBytes(6), 6*(384*size+c.scales); got != want {
			t.Errorf("%s: %d bytes of input, expected %d", c.format, got, want)
		}
		parts, err := task.GroupedParts()
		if err != nil || len(parts) != 4 {
			t.Fatal(parts, err)
		}
		for _, p := range parts {
			n, err := p.Normalized()
			if err != nil || n.ScalesAt != p.ScalesAt || n.LDScales != p.LDScales || n.Weights != task.Weights {
				t.Errorf("%s, group %d: %+v, %v", c.format, p.Group, n, err)
			}
			if first := p.Row*task.K + p.ScalesAt; task.Scaled() && first != task.ScalesAt+4*p.Row {
				t.Errorf("%s, group %d: scales begin at byte %d", c.format, p.Group, first)
			}
		}
	}
}

func TestQuantizedGroupsAreRefused(t *testing.T) {
	good := groupedTask(t, 6, FP8, Dims{N: 64, K: 256, Groups: 4}, "fp8:128x128")
	for name, change := range map[string]func(*Task){
		"scales inside A":  func(p *Task) { p.ScalesAt = 6*256 - 4 },
		"groups too close": func(p *Task) { p.LDScales = 5 },
		"layout kn":        func(p *Task) { p.Layout = RowMajor },
		"packed inside":    func(p *Task) { p.PackInside = true },
		"scales of bf16":   func(p *Task) { p.Weights.Scale = BF16 },
		"no scales":        func(p *Task) { p.Weights = WeightFormat{} },
		"a padded row":     func(p *Task) { p.LDA = 300 },
	} {
		bad := good
		if change(&bad); name == "no scales" {
			bad.ScalesAt = 6 * 256
		}
		if _, err := bad.Normalized(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	// A kernel without the formats names the operation; the error names the format.
	var no *Unsupported
	if _, err := good.Grouped("mma-grouped", 0); !errors.As(err, &no) || !strings.Contains(no.Reason, "grouped") ||
		no.Weights != "fp8:128x128" || no.DType != FP8 {
		t.Errorf("%+v", no)
	}
	if _, err := good.Grouped("scaled", ScaledWeights); err != nil {
		t.Error(err)
	}
}

// Operands in memory are those of the reference.
func TestReadQuantizedOperands(t *testing.T) {
	read := 0
	for _, d := range []DType{BF16, FP8} {
		for _, task := range groupedCases(d) {
			task.Operation = GroupedGEMM
			task, err := task.behindGuards().Normalized()
			if err != nil {
				t.Fatal(err)
			}
			of, err := drawCase(task, 3)
			if err != nil {
				t.Fatal(err)
			}
			a := Operand{Buffer: &hostBuffer{of.in}, Offset: guardOf(task.K)}
			in, stored, err := ReadOperands(task, a, &hostBuffer{of.stored})
			if err != nil || !slices.Equal(in, of.operands[0]) || !slices.Equal(stored, of.operands[1]) {
				t.Errorf("%v: other operands: %v", task, err)
			}
			read++
		}
	}
	if read < 30 {
		t.Errorf("%d cases", read)
	}
}

// Weights are filled group by group, each with other codes.
func TestFillQuantizedGroups(t *testing.T) {
	for _, format := range []string{"fp8:128x128", "fp8:column"} {
		task := groupedTask(t, 1, FP8, Dims{N: 300, K: 384, Groups: 3}, format)
		raw := &hostBuffer{make([]byte, task.Stored(1))}
		if err := FillWeights(raw, task.Subject, 1, Normal, 3); err != nil {
			t.Fatal(err)
		}
		again := &hostBuffer{make([]byte, task.Stored(1))}
		if err := FillWeights(again, task.Subject, 1, Normal, 3); err != nil || !slices.Equal(raw.mem, again.mem) {
			t.Errorf("%s: the same seed gives other weights: %v", format, err)
		}
		one := int(task.OneGroup().Stored(1))
		for group := range 3 {
			m := readRaw(task.Weights, task.N, task.K, raw.mem[group*one:][:one])
			for i, s := range m.Scales {
				if !(s > 0 && s < 1) {
					t.Fatalf("%s: scale %d of group %d is %g", format, i, group, s)
				}
			}
			if next := raw.mem[(group+1)%3*one:][:one]; slices.Equal(raw.mem[group*one:][:one], next) {
				t.Errorf("%s: group %d equals the one behind it", format, group)
			}
		}
	}
}
