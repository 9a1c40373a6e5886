package remedy

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func hasWarning(ws []rules.Warning, text string) bool {
	return slices.ContainsFunc(ws, func(w rules.Warning) bool { return strings.Contains(w.Text, text) })
}

func articleConfig(threshold float64) rules.Config {
	c := rules.Default().Only(rules.Monotonic)
	c.Method, c.Threshold = rules.MethodArticle, threshold
	return c
}

func only(t *testing.T, rule rules.Rule, data infer.Data, w *synthetic.World) []rules.Finding {
	t.Helper()
	a, err := rules.RunAudit(t.Context(), data, rules.Default().Only(rule), w)
	if err != nil {
		t.Fatal(err)
	}
	return a.Findings
}
