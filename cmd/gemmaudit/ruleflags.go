package main

import (
	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/rules"
)

// ruleFlags are the flags that say how a run is judged; `audit`, `splits`,
// `report` and `run` share them.
type ruleFlags struct {
	file      string
	method    string
	threshold float64
	fdr       float64
	clock     float64

	// changed says whether a flag was given, as 0 is no threshold.
	changed func(name string) bool
}

func (f *ruleFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "rules", "", "YAML file of rules, thresholds and waivers, laid over the built-in one")
	flags.StringVar(&f.method, "method", "", "interval (confidence bounds) or article (running maximum of point estimates)")
	flags.Float64Var(&f.threshold, "threshold", 0, "share of the reference's MFU below which a row is anomalous")
	flags.Float64Var(&f.fdr, "fdr", 0, "false discovery rate of each rule")
	complete(cmd, "rules", filesWith("yaml", "yml"))
	complete(cmd, "method", fixed(rules.MethodInterval, rules.MethodArticle))
	complete(cmd, "threshold", fixed("0.95", "0.9", "0.85"))
	complete(cmd, "fdr", fixed("0.05", "0.01"))
	f.changed = cmd.Flags().Changed
}

// registerClock adds --clock, for commands that judge what was measured before.
func (f *ruleFlags) registerClock(cmd *cobra.Command) { clockFlag(cmd, &f.clock) }

// clockFlag adds --clock.
func clockFlag(cmd *cobra.Command, mhz *float64) {
	cmd.Flags().Float64Var(mhz, "clock", 0, "clock in MHz at which rows are judged, 0 for the run's own")
	complete(cmd, "clock", fixed("0", "1410", "1755", "1980"))
}

// config reads the rules file and lays the flags over it.
func (f *ruleFlags) config(a *app) (rules.Config, error) {
	cfg, err := rules.LoadConfig(f.file)
	if err != nil {
		return cfg, usage(err)
	}
	if f.changed("method") {
		cfg.Method = f.method
	}
	if f.changed("threshold") {
		cfg.Threshold = f.threshold
	}
	if f.changed("fdr") {
		cfg.FDR = f.fdr
	}
	if f.changed("clock") {
		if err := setClock(&cfg, f.clock); err != nil {
			return cfg, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef("--%w", err)
	}
	cfg.Today = a.now().Format("2006-01-02")
	return cfg, nil
}

// setClock sets the clock at which rows are judged. The error speaks of the flag.
func setClock(cfg *rules.Config, mhz float64) error {
	cfg.ClockMHz = mhz
	if mhz != 0 && !(mhz >= leastClock && mhz <= mostClock) { // NaN is neither
		return usagef("--clock: %v, expected 0 or %d to %d MHz", mhz, leastClock, mostClock)
	}
	return nil
}
