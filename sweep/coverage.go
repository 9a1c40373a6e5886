package sweep

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/results"
)

// Covered counts what a run holds of what it was asked for: of its plan, or of the plan's shard. A run without a plan, as of an
// import, was asked for what it holds; a plan that can't be read is damage.
func Covered(run *results.Run) (results.Coverage, error) {
	raw := run.Meta().Plan
	if len(raw) == 0 {
		return run.Coverage(nil)
	}
	plan, err := DecodePlan(raw)
	if err != nil {
		return results.Coverage{}, &results.FormatError{Path: run.Path(), Reason: fmt.Sprintf("what the run was asked for can't be read: %v", err)}
	}
	return run.Coverage(plan.Own())
}
