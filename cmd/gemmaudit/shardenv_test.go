package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestShardOfJob(t *testing.T) {
	slurm := func(id, least, most, count string) map[string]string {
		return map[string]string{"SLURM_ARRAY_TASK_ID": id, "SLURM_ARRAY_TASK_MIN": least, "SLURM_ARRAY_TASK_MAX": most,
			"SLURM_ARRAY_TASK_COUNT": count}
	}
	for _, c := range []struct {
		name  string
		env   map[string]string
		given string // --shard
		want  string // the shard, empty for the whole plan
		told  string // the variable named in the message
		err   string
	}{
		{name: "no job"},
		{name: "Slurm from 0, first", env: slurm("0", "0", "7", "8"), want: "1/8", told: "SLURM_ARRAY_TASK_ID"},
		{name: "Slurm from 0, last", env: slurm("7", "0", "7", "8"), want: "8/8", told: "SLURM_ARRAY_TASK_ID"},
		{name: "Slurm from 1, first", env: slurm("1", "1", "8", "8"), want: "1/8", told: "SLURM_ARRAY_TASK_ID"},
		{name: "Slurm from 1, last", env: slurm("8", "1", "8", "8"), want: "8/8", told: "SLURM_ARRAY_TASK_ID"},
		{name: "Slurm, one task", env: slurm("0", "0", "0", "1")},
		{name: "Slurm, task 3 alone", env: slurm("3", "3", "3", "1"),
			err: "SLURM_ARRAY_TASK_ID is 3: the array begins at SLURM_ARRAY_TASK_MIN 3, expected 0 or 1"},
		{name: "Slurm, tasks 3 to 5 again", env: slurm("4", "3", "5", "3"), err: "begins at SLURM_ARRAY_TASK_MIN 3"},
		{name: "Slurm, tasks 1 and 5 again", env: slurm("5", "1", "5", "2"), err: "has 2 tasks from 1 to SLURM_ARRAY_TASK_MAX 5"},
		{name: "Slurm, past the end", env: slurm("9", "0", "7", "8"), err: "SLURM_ARRAY_TASK_ID is 9: expected 0 to 7"},
		{name: "Slurm without its least", env: map[string]string{"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"},
			err: "SLURM_ARRAY_TASK_MIN is not set"},
		{name: "no array", env: map[string]string{"SLURM_JOB_ID": "77", "SLURM_PROCID": "3"}},
		{name: "Kubernetes", env: map[string]string{"JOB_COMPLETION_INDEX": "2", "JOB_COMPLETIONS": "4"}, want: "3/4",
			told: "JOB_COMPLETION_INDEX"},
		{name: "Kubernetes without a count", env: map[string]string{"JOB_COMPLETION_INDEX": "2"},
			err: "JOB_COMPLETION_INDEX is set and JOB_COMPLETIONS is not"},
		{name: "Kubernetes, not indexed", env: map[string]string{"JOB_COMPLETIONS": "4"},
			err: "JOB_COMPLETIONS is set and JOB_COMPLETION_INDEX is not"},
		{name: "Slurm without a count", env: map[string]string{"SLURM_ARRAY_TASK_ID": "1"},
			err: "SLURM_ARRAY_TASK_ID is set and SLURM_ARRAY_TASK_COUNT is not"},
		{name: "Open MPI without a count", env: map[string]string{"OMPI_COMM_WORLD_RANK": "1"},
			err: "OMPI_COMM_WORLD_RANK is set and OMPI_COMM_WORLD_SIZE is not"},
		{name: "torchrun without a count", env: map[string]string{"RANK": "1"}, err: "RANK is set and WORLD_SIZE is not"},
		{name: "torchrun without a rank", env: map[string]string{"WORLD_SIZE": "2"}, err: "WORLD_SIZE is set and RANK is not"},
		{name: "no count, and a shard is given", env: map[string]string{"RANK": "1"}, given: "1/2", want: "1/2"},
		{name: "Open MPI", env: map[string]string{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "16"}, want: "1/16",
			told: "OMPI_COMM_WORLD_RANK"},
		{name: "torchrun", env: map[string]string{"RANK": "15", "WORLD_SIZE": "16"}, want: "16/16", told: "RANK"},
		{name: "torchrun past the end", env: map[string]string{"RANK": "16", "WORLD_SIZE": "16"}, err: "RANK is 16: expected 0 to 15"},
		{name: "no number", env: map[string]string{"RANK": "first", "WORLD_SIZE": "16"},
			err: `RANK is "first", expected a whole number, at least 0`},
		{name: "below 0", env: map[string]string{"RANK": "-1", "WORLD_SIZE": "16"}, err: `RANK is "-1"`},
		{name: "of none", env: map[string]string{"RANK": "0", "WORLD_SIZE": "0"}, err: "WORLD_SIZE is 0, expected at least 1"},
		{name: "of too many", env: map[string]string{"RANK": "0", "WORLD_SIZE": "99999999"}, err: "RANK and WORLD_SIZE: "},
		{name: "two that agree",
			env: map[string]string{"RANK": "1", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, want: "2/2",
			told: "RANK"},
		{name: "two that differ",
			env: map[string]string{"RANK": "1", "WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
			err: "OMPI_COMM_WORLD_RANK and RANK are set to different shards, 2/2 and 2/4"},
		{name: "a shard is given", env: slurm("0", "0", "7", "8"), given: "3/4", want: "3/4"},
		{name: "none is given", env: slurm("0", "0", "7", "8"), given: "none", want: "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			a := newApp(nil, nil, &stderr, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }, nil)
			a.quiet = true
			f := planFlags{shard: c.given}
			err := a.shardOfJob(&f)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || exitCode(err) != exitUsage ||
					!strings.Contains(hintOf(err), "--shard none") {
					t.Fatalf("%v, hint %q, expected %q", err, hintOf(err), c.err)
				}
				return
			}
			if err != nil || f.shard != c.want {
				t.Fatalf("%q, %v, expected %q", f.shard, err, c.want)
			}
			if says := stderr.String(); (c.told == "") != (says == "") || !strings.Contains(says, c.told) {
				t.Errorf("stderr has %q, expected the name of %q", says, c.told)
			}
		})
	}
}
