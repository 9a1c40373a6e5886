package rules

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

//docs:begin rule

// Jump is the rule that time grows no faster than M from one row to the next.
const Jump Rule = "jump"

// jumpConfig is the rule's field of RuleSet; its defaults stand in default.yaml.
var jumpConfig = MarginConfig{Enabled: true, Margin: 0.1}

// jumpRule goes into ruleTable.
var jumpRule = rule{
	name:    Jump,
	meaning: "time grows faster than M from one row to the next",
	claim:   "one step of M costs more time than it has rows",
	help: "A row is held against the next smaller M of its series, whose time is scaled to the row's M. The row " +
		"breaks the rule when it takes longer by more than the margin.",
	settings: []setting{
		number("margin", "the jump above which a row counts", closed(0, 10),
			func(*Config) *float64 { return &jumpConfig.Margin }),
	},
	enabled: func(*RuleSet) *bool { return &jumpConfig.Enabled },
	judge:   jumps,
	bound:   func(Config, Finding) float64 { return marginLoss(jumpConfig.Margin) },
}

// jumps judges the rows of one curve. blank gives a row without a say, hold the p-value, the
// interval and the sides of the bound; the verdict is made of all rows together.
func jumps(f *family, c *curve) []judgement {
	rows := f.blank(c)
	for i, p := range c.points {
		if i == 0 || !p.judged(f.cfg.MinSamples) || !c.points[i-1].serves(f.cfg.MinSamples) {
			continue
		}
		last := c.points[i-1]
		j := &rows[i]
		j.against, j.base = &c.series.Rows[last.row].Case, []int{i - 1}
		enough := last.us
		enough.y += math.Log(float64(p.m) / float64(last.m))
		f.hold(j, enough, math.Log1p(jumpConfig.Margin))
		// The two cases, which are timed again side by side, differ in size as well.
		j.ideal = enough.y - last.us.y
		j.bound += j.ideal
	}
	return rows
}

//docs:end

// Another rule is an entry of the table; a table of numbers is all that it takes to run it.
func Example_rule() {
	before := ruleTable
	ruleTable = append(ruleTable[:len(ruleTable):len(ruleTable)], jumpRule)
	defer func() { ruleTable = before }()

	//docs:begin use of a rule
	w := byM(func(m int) float64 {
		if m > 256 {
			return 1.5 * float64(m) // a cliff between 256 and 272
		}
		return float64(m)
	}, gaussian(0.01), rand.New(rand.NewPCG(1, 2)))
	audit, err := RunAudit(context.Background(), w.sweep(grid(16, 512, 16), 8), Default().Only(Jump), w)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range audit.Findings {
		fmt.Printf("%s %s m%d: loses %.0f %%\n", f.Status, f.Rule, f.WorstM, 100*f.Loss.Mid)
	}
	//docs:end
	// Output:
	// confirmed jump m272: loses 33 %
}
