package main

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/sweep"
)

// shardNone is the value of --shard that measures the whole plan despite a job's variables.
const shardNone = "none"

// shardOfJob sets the shard from a job's variables, unless the command line sets one. It reports this even
// with --quiet: an unexpected shard would miss most of the plan.
func (a *app) shardOfJob(f *planFlags) error {
	if f.shard != "" {
		return nil
	}
	of, from, err := sweep.ShardOfJob(a.env)
	if err != nil {
		return hint(usage(err), "set the part with --shard 3/8, or measure all with --shard none")
	}
	if from != "" {
		f.shard = of.String()
		fmt.Fprintf(a.stderr, "measuring shard %v of the plan, from %s; --shard none measures all\n", of, from)
	}
	return nil
}
