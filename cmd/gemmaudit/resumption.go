package main

import "github.com/gemmaudit/gemmaudit/rules/outcome"

// resumption is the behavior of a flag under --resume.
type resumption string

const (
	// fromPlan flags define the measurements. The run file has the plan, so --resume rejects them.
	fromPlan resumption = "the run file has it"
	// renewed flags may be given again; otherwise the run file's value applies.
	renewed resumption = "the run file has it, and --resume may give another"
	// fromSearch flags define the search for remedies. The run file has them; --resume rejects other values.
	fromSearch resumption = "the run file has it, and --resume refuses another"
	// repeated flags are in no run file, so the command in the hint repeats them.
	repeated resumption = "the command to continue repeats it"
	// repeatedFiles are repeated too, as they were given: see [brought.args].
	repeatedFiles resumption = "the command to continue repeats each file"
	// ofStart flags apply to one start of the command.
	ofStart resumption = "it holds for one start"
)

// resumptions covers the flags of run and sweep that are not in [declaredPlanFlags].
var resumptions = map[string]resumption{
	"label": fromPlan,

	"remedies": fromSearch, "engine-kernels": fromSearch, "pads": fromSearch, "predicted": fromSearch, "fill": fromSearch,
	"same-bits": fromSearch, "batch-invariant": fromSearch,

	"rules": repeated, "method": repeated, "threshold": repeated, "fdr": repeated, "gate": repeated, "fail-marginal": repeated,
	"confirm": repeated, "sustained": repeated, "sustained-limit": repeated, "case-timeout": repeated, "images": repeated,
	"output": repeated, "all": repeated, "textfile": repeated, outcome.AcceptFailed: repeated, outcome.AcceptMissing: repeated,
	outcome.AcceptMixed: repeated, "along": repeated,
	"kernel-file": repeatedFiles, "library": repeatedFiles, "python": repeatedFiles, "eager": repeatedFiles,

	"out": ofStart, "resume": ofStart, "parent": ofStart, "retry-faults": ofStart, "dry-run": ofStart, "against": ofStart,
}

func flagsOfRun() []string {
	var out []string
	for _, d := range declaredPlanFlags {
		if d.resume == "" {
			out = append(out, d.name)
		}
	}
	for name, r := range resumptions {
		if r == fromPlan {
			out = append(out, name)
		}
	}
	return out
}

// timingFlags returns the plan flags that change only the timing, not the kernels that run.
func timingFlags() []string {
	var out []string
	for _, d := range declaredPlanFlags {
		if d.timing {
			out = append(out, d.name)
		}
	}
	return out
}
