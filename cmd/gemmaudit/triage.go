package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/triage"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
	"github.com/gemmaudit/gemmaudit/sweep"
)

const (
	// triageTime is triage's default time limit.
	triageTime = 5 * time.Minute
	// The shares of the time for the sweep, for measuring suspects again, and for executing remedies. The
	// rest is for ceilings, plans and the report.
	triageSweep, triageConfirm, triageExecute = 0.5, 0.2, 0.2
	// triageLead is the maximum share of the time for the heaviest product on a machine slower than
	// predicted; later steps then get less.
	triageLead = 0.9
	// triagePlanned is the share of the sweep's time planned for rows, because predictions can be wrong.
	triagePlanned = 0.7
	// longerTime is how many times longer the suggested run takes.
	longerTime = 12
)

var triageFlags = []string{"layout", "dtype", "kernel", "algos", "regime", "threads", "deadline", "seed"}

// stateTriage is the key in a run for triage's command line.
const stateTriage = "triage"

type triageOptions struct {
	run   runOptions
	asked triageAsked
}

// triageAsked is triage's command line as stored in a run.
type triageAsked struct {
	// Files are the workload's files, Flags the flags to repeat in a longer run.
	Files []string `json:"files"`
	Flags []string `json:"flags,omitempty"`
	// Time is the time limit.
	Time time.Duration `json:"time_ns"`
}

func newTriageCommand(a *app) *cobra.Command {
	opts := &triageOptions{run: runOptions{app: a, confirm: true, images: "svg", parent: "out"}}
	opts.run.triage = opts
	cmd := &cobra.Command{
		Use:               "triage TRACE|LOG|SHAPES...",
		Args:              opts.arguments,
		ValidArgsFunction: workloadFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.ask(cmd, args); err != nil {
				return err
			}
			return opts.run.run(cmd)
		},
	}
	opts.run.plan.registerSome(a, cmd, triageFlags...)
	opts.run.rules.register(cmd)
	a.faults.register(cmd)
	a.labels.register(cmd)
	flags := cmd.Flags()
	deadline := flags.Lookup("deadline")
	deadline.Usage = "time for everything, as in 2m"
	deadline.DefValue = triageTime.String()
	opts.run.plan.set.Deadline = triageTime
	opts.run.registerFolder(cmd)
	flags.BoolVar(&opts.run.resume, "resume", false, "continue the triage in --out")
	a.textfile.register(cmd)
	findingsGate(cmd, &opts.run.gate)
	opts.run.remedies.register(a, cmd)
	gatesFlag(cmd, &opts.run.output, report.Formats())
	return cmd
}

func (o *triageOptions) arguments(_ *cobra.Command, args []string) error {
	if !o.run.resume {
		return atLeastArgs("TRACE|LOG|SHAPES")(nil, args)
	}
	if len(args) > 0 {
		return usagef("unexpected argument %q: with --resume the run file has the workload", args[0])
	}
	return nil
}

func (o *triageOptions) ask(cmd *cobra.Command, files []string) error {
	plan := &o.run.plan
	if plan.set.Deadline <= 0 {
		return badFlag("deadline", fmt.Errorf("%v, expected a time above 0, as in 5m", plan.set.Deadline))
	}
	o.asked = triageAsked{Files: files, Time: plan.set.Deadline}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "deadline" && (slices.Contains(triageFlags, f.Name) || resumptions[f.Name] == fromSearch || f.Name == "device") {
			value := f.Value.String()
			if list, ok := f.Value.(pflag.SliceValue); ok {
				value = strings.Join(list.GetSlice(), ",")
			}
			o.asked.Flags = append(o.asked.Flags, "--"+f.Name, value)
		}
	})
	plan.shapesFrom, plan.set.Neighbours, plan.shard = files, true, shardNone
	plan.set.Deadline = time.Duration(triageSweep * float64(o.asked.Time))
	return nil
}

// choose sets the defaults: the kernels, and how much of the workload to plan.
func (o *triageOptions) choose(options *sweep.Options) {
	options.Budget = time.Duration(triagePlanned * float64(options.Deadline))
	options.Lead = time.Duration(triageLead * float64(o.asked.Time))
	options.Libraries, options.First = true, o.run.plan.library
}

func (o *triageOptions) limits(plan *sweep.Plan) limits {
	all := float64(plan.Deadline) / triageSweep
	left := (1 - triageSweep) * all
	if a := o.run.app; !a.began.IsZero() {
		left = max(float64(time.Millisecond), all-float64(a.now().Sub(a.began)))
	}
	share := func(of float64) time.Duration {
		return time.Duration(min(of*all, left*of/(triageConfirm+triageExecute)))
	}
	return limits{confirm: share(triageConfirm), execute: share(triageExecute)}
}

func (o *triageOptions) restore(run *results.Run) error {
	asked, err := verdict.Kept[triageAsked](run, stateTriage)
	if err != nil {
		return err
	}
	if asked == nil {
		return hint(usagef("%s: the run was not started by triage", run.Path()), "`%s` continues it",
			commandLine(append([]string{"run", "--resume", "--out", o.run.out}, o.run.app.brought.args()...)))
	}
	o.asked.Files, o.asked.Flags = asked.Files, asked.Flags
	if o.run.plan.changed("deadline") {
		return nil
	}
	o.asked.Time = asked.Time
	return nil
}

func (o *triageOptions) answer(folder string, run *results.Run, audit *rules.Audit, found *remedy.Result,
	problems []*problem.Problem) error {
	a := o.run.app
	data, err := infer.LoadData(run)
	if err != nil {
		return err
	}
	t, err := triage.New(data, audit, found)
	if err != nil {
		return err
	}
	t.Files = o.asked.Files
	for i := range t.Losses {
		l := &t.Losses[i]
		for _, p := range problems {
			if p.Holds(l.Series, l.M) {
				l.Problem = p.Number
				break
			}
		}
	}
	if len(t.Losses) > 0 && t.Losses[0].Problem > 0 {
		t.Explain = commandLine([]string{"explain", run.Path(), strconv.Itoa(t.Losses[0].Problem)})
	}
	longer := []string{"run", "--shapes-from", strings.Join(t.Files, ","), "--neighbours", "--deadline",
		shortDuration(longerTime * o.asked.Time)}
	var loaded []string
	if i := slices.Index(o.asked.Flags, "--kernel"); i >= 0 {
		loaded = strings.Split(o.asked.Flags[i+1], ",")
	}
	t.Longer = commandLine(slices.Concat(longer, o.asked.Flags, a.brought.args(loaded...)))
	out := a.stream(a.stdout)
	if err := a.wrapPrint(report.WriteTriage(out, o.run.output, run.Meta(), data.Series, t)); err != nil {
		return err
	}
	if o.run.output == report.Table || o.run.output == report.Wide || o.run.output == report.Markdown {
		fmt.Fprintf(out, "folder: %s\n", oneLine(folder))
	}
	return nil
}

// shortDuration prints a duration as typed in a flag: 1h, not 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
