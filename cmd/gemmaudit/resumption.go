package main

import "github.com/gemmaudit/gemmaudit/rules"

// resumption is what --resume does with a flag of the command that began the run.
type resumption string

const (
	// fromPlan flags say what is measured. The run file has the plan: --resume refuses them.
	fromPlan resumption = "the run file has it"
	// renewed flags may be given again, and else are those of the run file.
	renewed resumption = "the run file has it, and --resume may give another"
	// fromSearch flags say how remedies are sought. The run file has that too; --resume refuses another value.
	fromSearch resumption = "the run file has it, and --resume refuses another"
	// repeated flags are in no run file: the command that the hint shows repeats them.
	repeated resumption = "the command to continue repeats it"
	// repeatedFiles are repeated too, each file as it was given: see [brought.args].
	repeatedFiles resumption = "the command to continue repeats each file"
	// ofStart flags hold for one start of the command.
	ofStart resumption = "it holds for one start"
)

// resumptions are those of the flags of run and sweep that are not [declaredPlanFlags].
var resumptions = map[string]resumption{
	"label": fromPlan,

	"remedies": fromSearch, "engine-kernels": fromSearch, "pads": fromSearch, "predicted": fromSearch, "fill": fromSearch,
	"same-bits": fromSearch, "batch-invariant": fromSearch,

	"rules": repeated, "method": repeated, "threshold": repeated, "fdr": repeated, "gate": repeated, "fail-marginal": repeated,
	"confirm": repeated, "sustained": repeated, "sustained-limit": repeated, "case-timeout": repeated, "images": repeated,
	"output": repeated, "textfile": repeated, rules.AcceptFailed: repeated, rules.AcceptMissing: repeated, rules.AcceptMixed: repeated,
	"kernel-file": repeatedFiles, "library": repeatedFiles,

	"out": ofStart, "resume": ofStart, "parent": ofStart, "retry-faults": ofStart, "dry-run": ofStart, "against": ofStart,
}

// flagsOfRun are the flags that the run file stands for.
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

// timingFlags are the flags of a plan that say how something is timed: they change nothing about
// what would run.
func timingFlags() []string {
	var out []string
	for _, d := range declaredPlanFlags {
		if d.timing {
			out = append(out, d.name)
		}
	}
	return out
}
