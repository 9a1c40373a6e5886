package report

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// padWeightsText is the size that weights are padded to: "n4160 (+0.5 MB)", "k4160 copied (+0.5 MB)".
func padWeightsText(r rules.Remedy) string {
	axis, copied := "n", ""
	if r.Kind == rules.RemedyPadK {
		axis = "k"
	}
	if r.Pad == table.Copied {
		copied = " copied"
	}
	text := fmt.Sprintf("%s%d%s", axis, r.PadTo, copied)
	if r.ExtraBytes > 0 {
		text += fmt.Sprintf(" (+%s MB)", short3(float64(r.ExtraBytes)/1e6))
	}
	return text
}

// padWeightsSteps say how an engine uses weights that are padded when it loads them.
func padWeightsSteps(r rules.Remedy) []step {
	more := r.PadTo - r.M
	if r.Kind == rules.RemedyPadK {
		return []step{
			{"PyTorch", fmt.Sprintf("weight = torch.nn.functional.pad(weight, (0, %d))  # at load; x needs as many zero columns", more),
				""},
			{engine: "C",
				text: fmt.Sprintf("pad the weights to K = %d at load, and give the activations rows of %d elements, the last %d zero.",
					r.PadTo, r.PadTo, more)},
		}
	}
	return []step{
		{"PyTorch", fmt.Sprintf("weight = torch.nn.functional.pad(weight, (0, 0, 0, %d))  # at load; use out[:, :%d]", more, r.M), ""},
		{engine: "C",
			text: fmt.Sprintf("pad the weights to N = %d at load, and write C with ldc = %d; its first %d columns are the result.",
				r.PadTo, r.PadTo, r.M)},
	}
}
