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

// reproduce is the command that measures a row and what it is compared with; brought are the
// flags that it takes for their kernels.
func reproduce(row, against results.Case, brought []string) string {
	words := []string{"--device", row.Device, "--kernel", row.Kernel}
	dtypes := string(row.DType)
	if against.M > 0 && against.Kernel != "" && against.Kernel != row.Kernel {
		words[len(words)-1] += "," + against.Kernel
	}
	if against.M > 0 && against.DType != "" && against.DType != row.DType {
		dtypes += "," + string(against.DType)
	}
	batches := []int{row.M}
	add := func(m int) {
		for _, have := range batches {
			if have == m {
				return
			}
		}
		batches = append(batches, m)
	}
	if against.M > 0 {
		add(against.M)
		for _, m := range against.Parts {
			add(m)
		}
		if against.PadTo > 0 {
			add(against.PadTo)
		}
	}
	if row.Operation != kernels.GEMM {
		words = append(words, "--op", row.Operation.String())
	}
	words = append(words, "--dtype", dtypes, "--shape", strings.ReplaceAll(row.Size(), " ", ""), "--batch", results.JoinInts(batches, ","))
	if row.Operation.HasWeights() && row.Layout != kernels.Transposed {
		words = append(words, "--layout", row.Layout.String())
	}
	if q, ok := kernels.QuantisationOf(row.Weights, row.K); ok && q != (kernels.Quantisation{}) {
		weights := q.String()
		if against.M > 0 && against.Weights == (kernels.WeightFormat{}) {
			weights = "plain," + weights
		}
		words = append(words, "--weights", weights)
	}
	if row.Regime != "" && row.Regime != results.Engine {
		words = append(words, "--regime", string(row.Regime))
	}
	return shellLine("gemmaudit sweep", append(words, brought...)...)
}

// shellLine is a command with arguments that a shell reads as they are: names may come from an imported file.
func shellLine(command string, args ...string) string {
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

// usualConfig is [Default], read once: a run may have thousands of findings. Nobody changes it.
var usualConfig = sync.OnceValue(Default)

// judgeAgain adds to a finding's command what judges the samples by the settings of cfg: with a rules file where
// the finding's rule has settings that no flag has. changes are those of cfg from the built-in rules.
func (f *Finding) judgeAgain(cfg Config, changes []ConfigChange) {
	file := fmt.Sprintf("%s-m%d.db", f.Rule, f.WorstM)
	args := []string{file, "--rule", string(f.Rule)}
	usual := usualConfig()
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
		args = append(args, "--confirm")
	}
	f.Reproduce += shellLine(" --out", file) + " && " + shellLine("gemmaudit audit", args...)
}

// needsRules says whether a key on which the finding's verdict rests, and that is no flag, differs from the
// built-in rules.
func (f *Finding) needsRules(changes []ConfigChange) bool {
	return slices.ContainsFunc(changes, func(c ConfigChange) bool {
		own, of := strings.CutPrefix(c.Key, "rules."+string(f.Rule)+".")
		return of && own != "enabled" || c.Key == "confidence" || c.Key == "min_samples" || strings.HasPrefix(c.Key, "confirm.")
	})
}
