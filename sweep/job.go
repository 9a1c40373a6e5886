package sweep

import (
	"fmt"
	"strconv"
	"strings"
)

// launcher is a program that starts many processes of one job and numbers them by environment variables.
type launcher struct {
	name  string
	index string // variable with the process number
	count string // variable with the number of processes
	// place converts the process number to a shard from 1. number reads another variable.
	place func(index, count int, number func(name string) (int, error)) (int, error)
}

// fromZero is the shard of a process whose number counts from 0.
func fromZero(index, count int, _ func(string) (int, error)) (int, error) {
	if index >= count {
		return 0, fmt.Errorf("expected 0 to %d", count-1)
	}
	return index + 1, nil
}

var launchers = []launcher{
	{"a Slurm job array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", slurmPart},
	// Kubernetes sets no count: manifests must set this variable to the Job's completions.
	{"an Indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", fromZero},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", fromZero},
	{"torchrun", "RANK", "WORLD_SIZE", fromZero},
}

// slurmPart is the shard of a task in an array that begins at 0 or 1. Other arrays, such as --array=3,5 for
// repeating two tasks, do not match the earlier array's shards.
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

// shard returns the shard named by the launcher's variables. ok is false if neither is set, or the job has
// one process. A single variable is an error: each process would measure the whole plan.
func (l launcher) shard(env func(string) (string, bool)) (s Shard, ok bool, err error) {
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
			return 0, fmt.Errorf("%s is %.40q, expected a whole number, at least 0", name, text)
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
	if s, err = ParseShard(fmt.Sprintf("%d/%d", part, count)); err != nil {
		return s, false, fmt.Errorf("%s and %s: %w", l.index, l.count, err)
	}
	return s, true, nil
}

// ShardOfJob returns the shard that a job's launcher assigns to this process by environment variables. from
// names the variables; it is empty outside of jobs, and the shard then is the whole plan.
func ShardOfJob(env func(string) (string, bool)) (of Shard, from string, err error) {
	first := ""
	for _, l := range launchers {
		s, ok, err := l.shard(env)
		switch {
		case err != nil:
			return Shard{}, "", fmt.Errorf("shard from %s: %w", l.name, err)
		case !ok:
		case from != "" && s != of:
			return Shard{}, "", fmt.Errorf("%s and %s are set to different shards, %v and %v", first, l.index, of, s)
		default:
			of, first, from = s, l.index, l.index+" and "+l.count
		}
	}
	return of, from, nil
}
