package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func reproduce(row, against results.Case, brought []string) string {
	words := []string{"--device", row.Device, "--kernel", row.Kernel}
	dtypes := string(row.DType)
	if against.M > 0 && against.Kernel != "" && against.Kernel != row.Kernel {
		words[len(words)-1] += "," + against.Kernel
	}
	if against.M > 0 && against.DType != "" && against.DType != row.DType {
		dtypes += "," + string(against.DType)
	}
	sizes := []int{row.M}
	if against.M > 0 {
		sizes = append(append(sizes, against.M), against.Parts...)
		if against.PadTo > 0 {
			sizes = append(sizes, against.PadTo)
		}
	}
	if !row.Operation.IsProduct() {
		words = append(words, "--op", row.Operation.String())
	}
	subjects := []kernels.Subject{row.Subject}
	further := append(routingFlags(row.Subject, against), epilogueFlags(row.Subject, against)...)
	if against.M > 0 && against.Dims != row.Dims {
		subjects = append(subjects, against.Subject)
	}
	words = append(append(append(words, "--dtype", dtypes), shapesOf(subjects, sizes)...), further...)
	if row.Operation.HasWeights() && row.Layout != kernels.Transposed {
		words = append(words, "--layout", row.Layout.String())
	}
	if q, ok := row.Weights.Requested(row.Real().K); ok && q != (kernels.WeightFormat{}) {
		weights := q.String()
		if against.M > 0 && against.Weights == (kernels.WeightFormat{}) {
			weights = "plain," + weights
		}
		words = append(words, "--weights", weights)
	}
	if row.Regime != "" && row.Regime != results.Engine {
		words = append(words, "--regime", string(row.Regime))
	}
	return CommandLine("gemmaudit sweep", append(words, brought...)...)
}

// routingFlags returns the flags for routing that shapes do not give. A recorded routing is a file, which is PATH.
func routingFlags(row kernels.Subject, against results.Case) []string {
	var values []string
	for _, s := range []kernels.Subject{against.Subject, row} {
		switch {
		case s.Groups == 0:
		case s.Routing != 0 && !slices.Contains(values, "PATH"):
			values = append(values, "PATH")
		case s.Even() && !slices.Contains(values, "even"):
			values = append(values, "even")
		}
	}
	if len(values) == 0 {
		return nil
	}
	return []string{"--routing", strings.Join(values, ",")}
}

// epilogueFlags returns the flag for the epilogues of fused products.
func epilogueFlags(row kernels.Subject, against results.Case) []string {
	var values []string
	for _, s := range []kernels.Subject{row, against.Subject} {
		if s.Epilogue != 0 && !slices.Contains(values, s.Epilogue.String()) {
			values = append(values, s.Epilogue.String())
		}
	}
	if len(values) == 0 {
		return nil
	}
	return []string{"--epilogue", strings.Join(values, ",")}
}

// shapesOf returns the flags for the rows of curves at some coordinates.
func shapesOf(subjects []kernels.Subject, at []int) []string {
	var shapes, batches []string
	for _, s := range subjects {
		for _, x := range at {
			of, m := s.At(x)
			of.Routing, of.Epilogue = 0, 0 // of other flags
			shape, batch := strings.ReplaceAll(of.Size(), " ", ""), strconv.Itoa(m)
			if !s.OverM() {
				shape = "m" + batch + shape
			}
			if !slices.Contains(shapes, shape) {
				shapes = append(shapes, shape)
			}
			if !slices.Contains(batches, batch) {
				batches = append(batches, batch)
			}
		}
	}
	flags := []string{"--shape", strings.Join(shapes, ",")}
	if subjects[0].OverM() {
		flags = append(flags, "--batch", strings.Join(batches, ","))
	}
	return flags
}

// CommandLine is a command with arguments quoted for a shell: names may come from an imported file.
func CommandLine(command string, args ...string) string {
	words := []string{command}
	for _, w := range args {
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%", r)
		}) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// usualConfig caches [Default], because a run may have thousands of findings. It must not be changed.
var usualConfig = sync.OnceValue(Default)

// JudgeAgain extends a finding's command to judge the samples by the settings of cfg, with a rules file if a
// setting has no flag. changes are the differences of cfg from the built-in rules.
func (f *Finding) JudgeAgain(cfg Config, changes []ConfigChange) {
	file := fmt.Sprintf("%s-%s%d.db", f.Rule, f.Series.Axis(), f.WorstM)
	args := []string{file, "--rule", string(f.Rule)}
	usual := usualConfig()
	if along := f.Series.Along.Dimension; along != "" {
		args = append(args, "--along", along)
	}
	if f.needsRules(changes) {
		args = append(args, "--rules", "PATH")
		f.NeedsPaths = true
	}
	for _, flag := range []struct {
		name      string
		is, usual float64
	}{
		{"--threshold", cfg.Threshold, usual.Threshold}, {"--fdr", cfg.FDR, usual.FDR}, {"--clock", cfg.ClockMHz, usual.ClockMHz},
	} {
		if flag.is != flag.usual {
			args = append(args, flag.name, strconv.FormatFloat(flag.is, 'g', -1, 64))
		}
	}
	if cfg.Method == MethodArticle {
		args = append(args, "--method", MethodArticle)
	} else {
		args = append(append(args, "--confirm"), f.Brought...)
	}
	f.Reproduce += CommandLine(" --out", file) + " && " + CommandLine("gemmaudit audit", args...)
}

// needsRules reports whether a key that the finding's verdict depends on, and that has no flag, differs from
// the built-in rules.
func (f *Finding) needsRules(changes []ConfigChange) bool {
	return slices.ContainsFunc(changes, func(c ConfigChange) bool {
		own, of := strings.CutPrefix(c.Key, "rules."+string(f.Rule)+".")
		return of && own != "enabled" || c.Key == "confidence" || c.Key == "min_samples" || strings.HasPrefix(c.Key, "confirm.")
	})
}
