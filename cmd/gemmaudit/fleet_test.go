package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/fleet/trial"
)

// writeFleet writes the runs of a simulated fleet into a folder: `simfleet -cards 8 -slow 3:0.05:memory night`.
func writeFleet(args []string) error {
	flags := flag.NewFlagSet("simfleet", flag.ContinueOnError)
	c := trial.Default(8, 1)
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "")
	flags.IntVar(&c.Cards, "cards", c.Cards, "")
	flags.IntVar(&c.PerHost, "per-host", c.PerHost, "")
	flags.IntVar(&c.Processes, "processes", c.Processes, "")
	flags.IntVar(&c.OtherDriver, "other-driver", 0, "")
	flags.Float64Var(&c.OtherBy, "other-by", 0, "")
	flags.Float64Var(&c.Modes, "modes", 0, "")
	first := flags.Int("first", 0, "")
	slow := flags.String("slow", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *slow != "" {
		var card int
		var kind string
		var depth float64
		if _, err := fmt.Sscanf(*slow, "%d:%f:%s", &card, &depth, &kind); err != nil {
			return fmt.Errorf("-slow %q: %w", *slow, err)
		}
		if kind == "all" {
			kind = string(fleet.AllCases)
		}
		c.Faults = map[int]trial.Fault{card: {Kind: fleet.Kind(kind), Depth: depth}}
	}
	dir := flags.Arg(0)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f := trial.New(c)
	for card := range c.Cards {
		for process := range c.Processes {
			if _, err := f.Write(dir, card, *first+process); err != nil {
				return err
			}
		}
	}
	return nil
}
