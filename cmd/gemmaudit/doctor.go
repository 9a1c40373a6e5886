package main

import (
	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/sweep/health"
)

type doctorOptions struct {
	app    *app
	output report.Format
	strict bool
}

func newDoctorCommand(a *app) *cobra.Command {
	opts := &doctorOptions{app: a}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show what would spoil a measurement on this machine",
		Example: examples(
			"gemmaudit doctor",
			"gemmaudit doctor -o markdown     # to paste into a bug report",
			"gemmaudit doctor --strict        # exit 1 when anything would spoil a measurement",
			"gemmaudit doctor --device cuda:1 # only this one of several cards",
		),
		Long: `Looks at the clock's governor, turbo, hyper-threads, other load, the hypervisor, memory,
rights, and the kernels and libraries that can't run here; on a GPU at throttling, its power
limit and clocks, temperature, memory errors, MIG, persistence, the link and who else is on it.
Each finding comes with what to do about it. Nothing is changed and nothing is measured.` + exitHelp(
			"0  examined, whatever was found",
			"1  --strict, and there are warnings or problems"),
		RunE: func(*cobra.Command, []string) error { return opts.run() },
	}
	outputFlag(cmd, &opts.output)
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit 1 when there is a warning or a problem")
	return cmd
}

// healthLevels are the words of a report for the severities of a finding.
var healthLevels = map[health.Severity]string{
	health.OK: "ok", health.Note: "note", health.Warning: "warning", health.Error: "problem",
}

func (o *doctorOptions) run() error {
	if o.app.device != "auto" {
		if _, err := o.app.devices(); err != nil { // the others are closed
			return err
		}
	}
	found := health.Check(health.Live(o.app.registry()))
	rows := make([]report.Health, len(found.Findings))
	for i, f := range found.Findings {
		rows[i] = report.Health{Name: f.Check, Level: healthLevels[f.Severity], Found: f.Seen, Hint: f.Hint}
	}
	if err := o.app.wrapPrint(report.WriteDoctor(o.app.stream(o.app.stdout), o.output, rows)); err != nil {
		return err
	}
	if bad := found.Count(health.Warning) + found.Count(health.Error); o.strict && bad > 0 {
		return gatef("%s would spoil a measurement here", plural(bad, "thing", "things"))
	}
	return nil
}
