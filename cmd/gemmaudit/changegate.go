package main

import (
	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/rules"
)

// changeGate says which changes of times make the exit code 1, of commands that compare runs.
type changeGate struct {
	changes  string // gateConfirmed, gateAny, gateSuspected or gateNone
	marginal bool   // marginal cases too, where the command has such
	accept   rules.Accept
}

// register adds --gate, the flags of what a verdict may lack, and --fail-marginal where rows names what may be marginal. usual is the
// gate that is not asked for.
func (g *changeGate) register(cmd *cobra.Command, usual, rows string) {
	cmd.Flags().StringVar(&g.changes, "gate", usual, "slower times that make the exit code 1: confirmed, any, suspected, none")
	if rows != "" {
		failMarginalFlag(cmd, &g.marginal, rows)
	}
	acceptFlags(cmd, &g.accept)
	complete(cmd, "gate", fixed(gateNames...))
}

// check returns a usage error for a gate that there is not.
func (g changeGate) check() error {
	return auditGate{findings: g.changes, marginal: g.marginal}.check()
}

// fails says whether a change makes the exit code 1.
func (g changeGate) fails(c rules.Change) bool {
	switch c {
	case rules.Slower:
		return g.changes != gateNone
	case rules.SuspectedSlower:
		return g.changes == gateSuspected
	case rules.AtThreshold:
		return g.marginal
	}
	return false
}
