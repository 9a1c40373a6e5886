package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/sweep"
)

// workload adds the products of recorded workloads to the plan, and notes the lines that it skips.
func (f *planFlags) workload(o *sweep.Options) error {
	name := "--shapes-from"
	if !f.changed("shapes-from") {
		name = strings.Join(f.shapesFrom, ", ") // which are arguments
	}
	library, left, err := o.AddWorkload(f.shapesFrom, f.changed("layout"))
	if err != nil && !errors.Is(err, sweep.ErrNoProduct) {
		return err
	}
	f.library = library
	for _, why := range slices.Sorted(maps.Keys(left)) {
		f.note("%s: %s skipped: %s", name, plural(left[why], "line", "lines"), why)
	}
	if err != nil {
		return usagef("%s: %w", name, err)
	}
	return nil
}
