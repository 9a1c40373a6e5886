package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/sweep"
)

// shardNone is the value of --shard that measures the whole plan, whatever a job's variables say.
const shardNone = "none"

// launcher is a program that starts many processes of one job, and tells each of them by variables of its
// environment which one it is.
type launcher struct {
	name  string
	index string // the variable with the number of the process
	count string // the one with how many there are
	// place turns the number into a part from 1 on. It gets other variables by their names.
	place func(index, count int, number func(name string) (int, error)) (int, error)
}

// fromZero is the part of a process whose number counts from 0.
func fromZero(index, count int, _ func(string) (int, error)) (int, error) {
	if index >= count {
		return 0, fmt.Errorf("expected 0 to %d", count-1)
	}
	return index + 1, nil
}

// launchers are those whose variables are read.
var launchers = []launcher{
	{"a Slurm job array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", slurmPart},
	// Kubernetes tells no count: manifests set this variable beside the completions of the Job.
	{"an Indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", fromZero},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", fromZero},
	{"torchrun", "RANK", "WORLD_SIZE", fromZero},
}

// slurmPart is the part of a task of an array that begins at 0 or 1. Of other arrays, as of --array=3,5 to
// repeat two tasks of an earlier one, the parts are not those of that one.
func slurmPart(index, count int, number func(string) (int, error)) (int, error) {
	least, err := number("SLURM_ARRAY_TASK_MIN")
	if err != nil {
		return 0, err
	}
	if least > 1 {
		return 0, fmt.Errorf("the array begins at SLURM_ARRAY_TASK_MIN %d, expected 0 or 1", least)
	}
	most, err := number("SLURM_ARRAY_TASK_MAX")
	if err != nil {
		return 0, err
	}
	if most-least+1 != count {
		return 0, fmt.Errorf("the array has %d tasks from %d to SLURM_ARRAY_TASK_MAX %d, expected all of these", count, least, most)
	}
	if index < least || index > most {
		return 0, fmt.Errorf("expected %d to %d", least, most)
	}
	return index - least + 1, nil
}

// shard is the part of the plan that the launcher's variables name. ok is false where neither is set, or where they name
// the one process of a job of one. One of the two alone is an error: each process would measure the whole plan.
func (l launcher) shard(env func(string) (string, bool)) (s sweep.Shard, ok bool, err error) {
	_, indexed := env(l.index)
	_, counted := env(l.count)
	switch {
	case !indexed && !counted:
		return s, false, nil
	case !counted:
		return s, false, fmt.Errorf("%s is set and %s is not", l.index, l.count)
	case !indexed:
		return s, false, fmt.Errorf("%s is set and %s is not", l.count, l.index)
	}
	number := func(name string) (int, error) {
		text, set := env(name)
		if !set {
			return 0, fmt.Errorf("%s is not set", name)
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s is %.40q, expected a whole number from 0 on", name, text)
		}
		return n, nil
	}
	index, err := number(l.index)
	if err != nil {
		return s, false, err
	}
	count, err := number(l.count)
	switch {
	case err != nil:
		return s, false, err
	case count < 1:
		return s, false, fmt.Errorf("%s is 0, expected at least 1", l.count)
	}
	part, err := l.place(index, count, number)
	if err != nil {
		return s, false, fmt.Errorf("%s is %d: %w", l.index, index, err)
	}
	if count == 1 {
		return s, false, nil
	}
	if s, err = sweep.ParseShard(fmt.Sprintf("%d/%d", part, count)); err != nil {
		return s, false, fmt.Errorf("%s and %s: %w", l.index, l.count, err)
	}
	return s, true, nil
}

// shardOfJob sets the shard that the variables of a job name, where the command line names none. It says so, also
// where notes are silenced: who did not expect a part would miss most of the plan.
func (a *app) shardOfJob(f *planFlags) error {
	if f.shard != "" {
		return nil
	}
	const instead = "--shard 3/8 names the part of the plan that is measured, --shard none measures all of it"
	var by *launcher
	var of sweep.Shard
	for i := range launchers {
		l := &launchers[i]
		s, ok, err := l.shard(a.env)
		switch {
		case err != nil:
			return hint(usagef("the part of the plan that %s names: %w", l.name, err), instead)
		case !ok:
		case by != nil && s != of:
			return hint(usagef("%s and %s are set, and name different parts of the plan, %v and %v", by.index, l.index, of, s), instead)
		default:
			by, of = l, s
		}
	}
	if by == nil {
		return nil
	}
	f.shard = of.String()
	fmt.Fprintf(a.stderr, "shard %v of the plan is measured, as %s and %s say; --shard none measures all of it\n", of, by.index, by.count)
	return nil
}
