package clustertest

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// The files for Prometheus and Grafana.
const (
	alertsFile    = "../../examples/prometheus/alerts.yml"
	dashboardFile = "../../examples/prometheus/dashboard.json"
	// metricsFile holds every metric; a test of report/metrics compares it.
	metricsFile = "../../report/metrics/testdata/outcome.prom"
)

// written parses the stored metrics with Prometheus' parser.
func written(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	text, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMetricNames(t *testing.T) {
	text, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// Alert rules are valid by promtool's checks, and use existing metrics and labels.
func TestAlerts(t *testing.T) {
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.LegacyValidation)
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) == 0 {
		t.Fatal("there are no alerts")
	}
	found := written(t)
	for _, g := range groups.Groups {
		if len(g.Rules) == 0 {
			t.Errorf("group %s has no rules", g.Name)
		}
		for _, r := range g.Rules {
			if r.Alert == "" || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%q has no summary or severity", r.Alert)
			}
			checkQuery(t, r.Alert, r.Expr, found)
		}
	}
}

// dashboard holds Grafana's queries.
type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			Expr   string `json:"expr"`
			Legend string `json:"legendFormat"`
			Ref    string `json:"refId"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

// The dashboard's queries are valid and use existing metrics.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	found := written(t)
	variables := map[string]bool{}
	values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if v.Type != "query" {
			continue
		}
		m := values.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("variable %s is %q, expected label_values", v.Name, v.Definition)
			continue
		}
		checkQuery(t, "variable "+v.Name, m[1]+`{`+m[2]+`!=""}`, found)
	}
	used := regexp.MustCompile(`\$\{?(\w+)\}?`)
	asked := map[string]bool{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 || ids[p.ID] || p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d, %q, asks for nothing, has the id of another one, or lies outside of the grid", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			for _, m := range used.FindAllStringSubmatch(q.Expr, -1) {
				if !variables[m[1]] {
					t.Errorf("%s: there is no variable %s", p.Title, m[1])
				}
			}
			for name := range checkQuery(t, p.Title, used.ReplaceAllString(q.Expr, "x"), found) {
				asked[name] = true
			}
		}
	}
	for name := range found {
		if !asked[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// scraped lists labels that Prometheus adds.
var scraped = []string{labels.MetricName, "instance", "job"}

// checkQuery returns the metrics of a query. All must exist, with the labels used for selection and grouping.
func checkQuery(t *testing.T, of, query string, found map[string]*dto.MetricFamily) map[string]bool {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", of, err)
		return nil
	}
	asked := map[string]bool{}
	have := map[string]bool{}
	var grouped []string
	for _, name := range scraped {
		have[name] = true
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			if found[n.Name] == nil {
				t.Errorf("%s asks for %s, which is not written", of, n.Name)
				return nil
			}
			asked[n.Name] = true
			own := labelsOf(found[n.Name])
			for name := range own {
				have[name] = true
			}
			for _, m := range n.LabelMatchers {
				values := own[m.Name]
				if m.Type == labels.MatchEqual && m.Name != labels.MetricName && !values[m.Value] && m.Name != "command" {
					t.Errorf("%s: no series of %s has %s=%q", of, n.Name, m.Name, m.Value)
				}
				grouped = append(grouped, m.Name)
			}
		case *parser.AggregateExpr:
			grouped = append(grouped, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				grouped = append(append(grouped, n.VectorMatching.MatchingLabels...), n.VectorMatching.Include...)
			}
		}
		return nil
	})
	if len(asked) == 0 {
		t.Errorf("%s asks for no metric of ours: %s", of, query)
	}
	for _, name := range grouped {
		if !have[name] {
			t.Errorf("%s names the label %s, which no series has: %s", of, name, strings.TrimSpace(query))
		}
	}
	return asked
}

// labelsOf returns the labels of a metric with their values.
func labelsOf(f *dto.MetricFamily) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, m := range f.Metric {
		for _, l := range m.Label {
			if out[l.GetName()] == nil {
				out[l.GetName()] = map[string]bool{}
			}
			out[l.GetName()][l.GetValue()] = true
		}
	}
	return out
}
