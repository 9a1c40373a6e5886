package main

import (
	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// ruleFlags are the flags shared by `audit`, `splits`, `report` and `run` that define how a run is judged.
type ruleFlags struct {
	file      string
	method    string
	along     string
	threshold float64
	fdr       float64
	clock     float64

	// changed reports whether a flag was given, because 0 can be a threshold.
	changed func(name string) bool
}

func (f *ruleFlags) register(cmd *cobra.Command) {
	addFlag(cmd, &f.file, "rules", "", rulesUsage, filesWith("yaml", "yml"))
	addFlag(cmd, &f.method, "method", "", "interval (confidence bounds) or article (point estimates)",
		fixed(rules.MethodInterval, rules.MethodArticle))
	alongFlag(cmd, &f.along)
	addFlag(cmd, &f.threshold, "threshold", 0, "a row below this share of the reference's MFU is anomalous", fixed("0.95", "0.9", "0.85"))
	addFlag(cmd, &f.fdr, "fdr", 0, "false discovery rate of each rule", fixed("0.05", "0.01"))
	f.changed = cmd.Flags().Changed
}

func alongFlag(cmd *cobra.Command, along *string) {
	addFlag(cmd, along, "along", "", "dimension that curves run along: m, n, k, columns, scale, ... (default auto)",
		fixed(infer.AlongNames()...))
}

// registerClock adds --clock, for commands that judge earlier measurements.
func (f *ruleFlags) registerClock(cmd *cobra.Command) { clockFlag(cmd, &f.clock) }

func clockFlag(cmd *cobra.Command, mhz *float64) {
	addFlag(cmd, mhz, "clock", 0, "clock in MHz for comparing times, 0 for the run's own", fixed("0", "1410", "1755", "1980"))
}

func (f *ruleFlags) config(a *app) (rules.Config, error) {
	cfg, err := rules.LoadConfig(f.file)
	if err != nil {
		return cfg, usage(err)
	}
	if f.changed("method") {
		cfg.Method = f.method
	}
	if f.changed("along") {
		cfg.Along = f.along
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

func setClock(cfg *rules.Config, mhz float64) error {
	cfg.ClockMHz = mhz
	if mhz != 0 && !(mhz >= leastClock && mhz <= mostClock) { // NaN is neither
		return usagef("--clock: %v, expected 0 or %d to %d MHz", mhz, leastClock, mostClock)
	}
	return nil
}
