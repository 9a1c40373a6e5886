package report

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/problem"
)

// fusingStretch is consecutive sizes of a series with one answer.
type fusingStretch struct {
	of rules.Fusing
	rules.FusingStretch
}

var fusingFields = field.Of([]field.Field[fusingStretch]{
	{Name: "series", Head: "series", JSON: "-", Words: seriesWords, Value: func(s fusingStretch) any { return seriesCell(s.of.Series) }},
	{Name: "separate", Head: "compared with", JSON: "-", Words: "the kernel that runs the product and then its epilogue",
		Value: func(s fusingStretch) any { return s.of.Separate }},
	{Name: "interval", Head: "M", JSON: "-", Words: "first and last M",
		Value: func(s fusingStretch) any { return IntervalText(s.FromM, s.ToM) }},
	{Name: "sizes", Head: "sizes", JSON: "-", Kind: field.Count, Words: "how many measured sizes these are",
		Value: func(s fusingStretch) any { return s.Sizes }},
	{Name: "answer", Head: "fusing", JSON: "-", Words: "pays, costs, or open: the times may be equal",
		Value: func(s fusingStretch) any { return string(s.Answer) }},
	{Name: "gain", Head: "most", JSON: "-", Unit: field.Factor, Words: "time of the parts over the fused time, where they differ most",
		Value: func(s fusingStretch) any { return s.Most.Gain }},
	{Name: "at", Head: "at M", JSON: "-", Kind: field.Count, Words: "the M of that size",
		Value: func(s fusingStretch) any { return s.Most.M }},
})

const fusingTitle = "Where fusing the epilogue pays"

func fusingSheet(a *rules.Audit) Sheet {
	var stretches []fusingStretch
	for _, f := range a.Fusing {
		for _, s := range f.Stretches() {
			stretches = append(stretches, fusingStretch{f, s})
		}
	}
	return sheetOf(fusingTitle, fusingFields, stretches)
}

func (p *page) fusing(a *rules.Audit) {
	if len(a.Fusing) == 0 {
		return
	}
	sheet := fusingSheet(a)
	p.add(section{heading: fusingTitle, sheet: &sheet, full: "findings.json",
		text: []string{"Fused products compared with the product and then the epilogue, of the same kernel."}})
}

// fusing is the sentence that counts the sizes where fusing pays.
func (a *Answer) fusing() []string {
	f := a.Fusing
	if f == nil {
		return nil
	}
	text := fmt.Sprintf("Fusing the epilogue pays at %d of %s", f.Pays, Plural(f.Sizes, "size", "sizes"))
	if f.Pays > 0 {
		text += fmt.Sprintf(" (up to %s)", gain3(f.Most.Mid).Text())
	}
	if f.Costs > 0 {
		text += fmt.Sprintf(" and costs at %d", f.Costs)
	}
	return []string{text + "; -o wide lists them."}
}

// torchEpilogues are PyTorch's expressions for an epilogue of the product c.
var torchEpilogues = map[kernels.Epilogue]string{
	0: "%s", kernels.ReLU: "torch.nn.functional.relu(%s)", kernels.GELU: "torch.nn.functional.gelu(%s)",
	kernels.TanhGELU: "torch.nn.functional.gelu(%s, approximate=\"tanh\")", kernels.SiLU: "torch.nn.functional.silu(%s)",
	kernels.Residual: "%s + residual",
}

// separateSteps say how an engine runs an epilogue apart from its product.
func separateSteps(p *problem.Problem) []step {
	e := p.Epilogue
	out := []step{{text: fmt.Sprintf("At these M, run the product without %v, then %[1]v as a kernel of its own, as %s does.", e,
		p.Remedy.Kernel)}}
	c := "torch.nn.functional.linear(x, weight)"
	if e.HasBias() {
		c += " + bias"
	}
	code := "gate, up = (" + c + ").chunk(2, dim=-1); c = torch.nn.functional.silu(gate) * up"
	if form, ok := torchEpilogues[e.Step()]; ok {
		code = strings.Replace(form, "%s", c, 1)
	}
	return append(out, step{engine: "PyTorch", code: code})
}
