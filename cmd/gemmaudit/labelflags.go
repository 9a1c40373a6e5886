package main

import (
	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/results"
)

type labelFlags struct{ given []string }

func (f *labelFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.given, "label", nil, "add `KEY=VALUE` to the run and its exports, as in rack=7 (repeatable)")
}

func (f *labelFlags) labels() (results.Labels, error) {
	labels, err := results.ParseLabels(f.given)
	if err != nil {
		return nil, badFlag("label", err)
	}
	return labels, nil
}
