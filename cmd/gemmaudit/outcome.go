package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// acceptFlags adds --accept-failed, --accept-missing and --accept-mixed to a command whose exit code rests on runs.
func acceptFlags(cmd *cobra.Command, accept *rules.Accept) {
	flags := cmd.Flags()
	flags.BoolVar(&accept.Failed, rules.AcceptFailed, false, "cases that failed do not change the exit code; their count is printed")
	flags.BoolVar(&accept.Missing, rules.AcceptMissing, false, "cases that were asked for and not measured do not change the exit code; their count is printed")
	flags.BoolVar(&accept.Mixed, rules.AcceptMixed, false, "judge runs in which several machines measured one device; the machines are printed")
}

// acceptHelp is what the flags of acceptFlags are for.
const acceptHelp = `Cases that failed exit 3, cases that were asked for and not measured exit 4, and so does a run in which
several machines measured one device. --accept-failed, --accept-missing and --accept-mixed judge the rest,
and print what they let pass.`

// conclude turns evidence into a command's error, nil for a pass. Every command that gates ends here.
func (a *app) conclude(e rules.Evidence) error {
	grounds, accepted := e.Grounds()
	for _, text := range accepted {
		a.warnf("%s", text)
	}
	if len(grounds) == 0 {
		return nil
	}
	texts := make([]string, len(grounds))
	hinted := ""
	for i, g := range grounds {
		texts[i] = g.Text
		if hinted == "" {
			hinted = g.Hint
		}
	}
	return &commandError{code: int(grounds[0].Outcome), err: errors.New(strings.Join(texts, "; besides, ")), hint: hinted}
}

// held is a run with what it holds of what it was asked for.
func held(run *results.Run) (rules.Held, error) {
	c, err := sweep.Covered(run)
	return rules.Held{Name: run.Path(), Coverage: c}, err
}

// groundsOf are what errors say for a verdict, nil errors left out: as Broken what failed beside cases, as Open why there is no
// verdict.
func groundsOf(errs ...error) []rules.Ground {
	var out []rules.Ground
	for _, err := range errs {
		if err != nil {
			out = append(out, rules.Ground{Text: err.Error(), Hint: hintOf(err)})
		}
	}
	return out
}
