package sweep

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/results"
)

// Covered counts a run's rows relative to its plan or the plan's shard. A run without a plan, such as an
// import, is complete.
func Covered(run *results.Run) (results.Coverage, error) {
	raw := run.Meta().Plan
	if len(raw) == 0 {
		return run.Coverage(nil)
	}
	plan, err := DecodePlan(raw)
	if err != nil {
		return results.Coverage{},
			&results.FormatError{Path: run.Path(), Reason: fmt.Sprintf("what the run was asked for can't be read: %v", err)}
	}
	c, err := run.Coverage(plan.Own())
	c.Cut = plan.Cut
	return c, err
}
