package main

import (
	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/results"
)

// labelFlags say what the machine of a run is called by.
type labelFlags struct{ given []string }

// register adds the flag to a command that begins a run.
func (f *labelFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.given, "label", nil, "`KEY=VALUE` that the run and its exports carry, as in rack=7 (repeatable)")
	complete(cmd, "label", cobra.NoFileCompletions)
}

// labels parses the flag.
func (f *labelFlags) labels() (results.Labels, error) {
	labels, err := results.ParseLabels(f.given)
	if err != nil {
		return nil, badFlag("label", err)
	}
	return labels, nil
}
