package rules

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

//docs:begin rule

// Jump is the rule that time grows no faster than M from one row to the next.
const Jump Rule = "jump"

// jumpConfig stands for the field RuleSet.Jump; its defaults are in default.yaml.
var jumpConfig = MarginConfig{Enabled: true, Margin: 0.1}

// jumpRule is the entry of ruleTable.
var jumpRule = rule{
	name:    Jump,
	meaning: "time grows faster than M from one row to the next",
	claim:   "one step of M costs more time than it has rows",
	help: "A row is compared with the next smaller M of its series, scaled to the row's M. It breaks the rule when " +
		"it takes longer by more than the margin.",
	settings: []setting{
		number("margin", "the jump above which a row counts", closed(0, 10),
			func(*Config) *float64 { return &jumpConfig.Margin }),
	},
	enabled: func(*RuleSet) *bool { return &jumpConfig.Enabled },
	judge:   jumps,
	bound:   func(Config, Finding) float64 { return MarginLoss(jumpConfig.Margin) },
}

//docs:end

// jumps judges one curve. blank returns rows without a judgement; hold adds p-value, interval and loss.
func jumps(f *Facts, c *infer.Curve) []Judgement {
	rows := f.blank(c)
	for i, p := range c.Points {
		if i == 0 || !p.Judged(f.Cfg.MinSamples) || !c.Points[i-1].Serves(f.Cfg.MinSamples) {
			continue
		}
		last := c.Points[i-1]
		j := &rows[i]
		j.Against, j.Base = &c.Series.Rows[last.Row].Case, []int{i - 1}
		enough := last.US
		enough.Y += math.Log(float64(p.M) / float64(last.M))
		f.hold(j, enough, math.Log1p(jumpConfig.Margin))
		// Confirmation times both cases again, and they differ in size.
		j.ideal = enough.Y - last.US.Y
		j.bound += j.ideal
	}
	return rows
}

// A new rule is an entry of ruleTable, and runs on a table of numbers.
func Example_rule() {
	before := ruleTable
	ruleTable = append(ruleTable[:len(ruleTable):len(ruleTable)], jumpRule)
	defer func() { ruleTable = before }()

	w := synthetic.ByM(func(m int) float64 {
		if m > 256 {
			return 1.5 * float64(m) // a cliff between 256 and 272
		}
		return float64(m)
	}, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(1, 2)))
	audit, err := RunAudit(context.Background(), w.Sweep(synthetic.Grid(16, 512, 16), 8), Default().Only(Jump), w)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range audit.Findings {
		fmt.Printf("%s %s m%d: loses %.0f %%\n", f.Status, f.Rule, f.WorstM, 100*f.Loss.Mid)
	}
	// Output:
	// confirmed jump m272: loses 33 %
}
