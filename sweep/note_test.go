package sweep

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

func lines(notes []Note) string {
	out := make([]string, len(notes))
	for i, n := range notes {
		out[i] = n.String()
	}
	return strings.Join(out, "\n")
}

// Old plans have notes as lines of text and one-word model names.
func TestOldPlansAreRead(t *testing.T) {
	d := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{{Name: "few", Cost: simulated.Linear(1e9, 0)}}})
	targets, err := ModelTargets(kernels.GEMM, "llama3-8b:o_proj", 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(t.Context(), []kernels.Device{d}, Options{Targets: targets, Batches: Batches{1, 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Notes = []Note{{What: "kernel mma on sim", LeftOut: true, Why: "it is slow: see there"},
		{What: "traffic", Why: "2 of its 2 Ms lie beyond the plan's"}}
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(text),
		`"noted":[{"what":"kernel mma on sim","left_out":true,"why":"it is slow: see there"},{"what":"traffic","why":"2 of its 2 Ms lie `+
			`beyond the plan's"}]`,
		`"notes":["kernel mma on sim is left out: it is slow: see there","traffic: 2 of its 2 Ms lie beyond the plan's"]`, 1)
	old = strings.ReplaceAll(old, `"model":"llama3-8b",`, "")
	if old == string(text) || strings.Contains(old, "noted") || strings.Contains(old, `"model"`) {
		t.Fatalf("the plan of now is %s", text)
	}
	back, err := DecodePlan([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.Notes, p.Notes) || back.Series[0].Model != "llama3-8b" || back.Series[0].Name != "llama3-8b:o_proj tp2" {
		t.Errorf("notes %+v of %s, model %q", back.Notes, back.Series[0].Name, back.Series[0].Model)
	}
}
