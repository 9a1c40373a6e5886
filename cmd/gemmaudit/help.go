package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/rules/explain"
)

const helpWidth = 100

// helpAllFlag is the flag that prints a command's details and all its flags.
const helpAllFlag = "help-all"

// detailsKey is the annotation for texts that are too long for --help.
const detailsKey = "details"

// flagGroups are the sections of flags in a help text. A flag with another meaning in one command is listed
// as COMMAND/FLAG. Ungrouped flags come first.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Products", []string{"model", "tp", "ep", "shape", "shapes-from", "neighbours", "op", "batch", "tokens", "top-k", "routing",
		"epilogue", "m", "dtype", "weights", "layout", "traffic", "sequences", "part", "measured", "n", "k"}},
	{"Kernels", []string{"kernel", "kernel-file", "python", "eager", "library", "algos", "threads", "pack-inside", "table",
		"device-name", "peak", "layers"}},
	{"Measurement", []string{"preset", "deadline", "budget", "dry-run", "resume", "confirm", "sustained", "sustained-limit", "rounds",
		"rounds-for", "block", "infer",
		"regime", "distribution", "seed", "shard", "check/out", "case-timeout", "retry-faults", "anyway",
		"simulate", "machines", "noise", "noise-kind", "pairs"}},
	{"Text", []string{"prompt", "prompt-file", "mistral/tokens", "context", "rows", "reference-tokens", "batches", "token-ids", "most",
		"temperature", "top-p", "min-p",
		"stop", "ignore-eos", "no-special", "window", "mistral/batch"}},
	{"Remedies", []string{"engine-kernels", "remedies", "pads", "execute", "among", "predicted", "fill", "same-bits", "batch-invariant",
		"ratio", "max-parts"}},
	{"Advice", []string{"for", "sizes", "latency", "max-num-batched-tokens", "max-sequences", "min-gain"}},
	{"Verdict", []string{"gate", "no-gate", "baseline", "fail-marginal", "max-undecided", "rule", "along", "rules", "threshold", "fdr",
		"level", "drain", "watch",
		"method", "clock", "despite-disturbance", "accept-failed", "accept-missing", "accept-mixed", "strict"}},
	{"Output", []string{"out", "parent", "diff", "against", "list-formats", "splits/table", "fleet/table", "allow-empty", "prune",
		"write-baseline", "all", "where", "sort", "top", "output", "format", "phase", "images", "plot",
		"compress", "anonymous", "textfile", "label", "force", "reason", "json", "worst", "keep", "to", "pytorch-version", "unfused"}},
}

// ungrouped is the number of a command's own flags above which they are grouped.
const ungrouped = 7

// Texts of flags that several commands have.
const (
	rulesUsage   = "YAML file that overrides built-in rules and thresholds, and has waivers"
	threadsUsage = "CPU threads, 0 for one per core"
	resumeUsage  = "continue the run in --out"
	intoUsage    = "write into a folder that has other files"
	stdoutUsage  = "file to write, - for stdout"
)

// commonFlags lists the flags in --help for commands with too many for one screen; --help-all shows the
// others.
var commonFlags = map[string][]string{
	"run": {"model", "shape", "batch", "dtype", "kernel", "python", "preset", "deadline", "dry-run", "resume", "engine-kernels", "gate",
		"out", "output", "all"},
	"triage": {"dtype", "kernel", "deadline", "resume", "engine-kernels", "pads", "gate", "out", "output", "threads"},
	"sweep": {"model", "shape", "batch", "op", "dtype", "kernel", "library", "algos", "preset", "deadline", "dry-run", "resume", "infer",
		"shard", "out", "output"},
	"choices": {"model", "shape", "batch", "dtype", "layout", "kernel", "library", "algos", "diff", "out", "output"},
	"audit":   {"confirm", "sustained", "gate", "baseline", "rule", "rules", "threshold", "all", "where", "sort", "top", "output"},
	"splits": {"execute", "engine-kernels", "remedies", "pads", "fill", "among", "traffic", "table", "where", "sort", "top", "output",
		"force"},
	"diff": {"kernel", "gate", "threshold", "max-undecided", "rules", "out", "where", "sort", "top", "output", "force"},
	"advise": {"model", "tp", "kernel", "dtype", "measured", "part", "traffic", "for", "sizes", "latency", "max-num-batched-tokens",
		"max-sequences",
		"out", "output", "force"},
	"fleet":    {"gate", "baseline", "drain", "watch", "out", "write-baseline", "table", "output", "force"},
	"selftest": {"kernel", "kernel-file", "python", "dtype", "noise", "pairs", "deadline", "simulate", "machines", "noise-kind", "output"},
	"mistral generate": {"prompt", "prompt-file", "tokens", "temperature", "top-p", "seed", "stop", "kernel", "dtype", "weights", "table",
		"json"},
	"mistral chat":     {"tokens", "context", "temperature", "top-p", "seed", "kernel", "dtype", "weights", "table"},
	"mistral validate": {"kernel", "dtype", "weights", "table", "prompt-file", "rows", "context", "reference-tokens", "out", "output"},
}

// commonGlobals lists the global flags in --help of those commands.
var commonGlobals = []string{"device", "quiet", "help", helpAllFlag}

// printHelp prints a help text, or all texts with --help-all.
func printHelp(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		all, _ := c.Flags().GetBool(helpAllFlag) // an error: cobra's own commands lack the flag
		_, _ = c.OutOrStdout().Write([]byte(helpText(c, all)))
	})
}

func wantsHelpAll(c *cobra.Command) {
	c.Flags().Bool(helpAllFlag, false, "print all flags and details")
	check := c.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if all, err := cmd.Flags().GetBool(helpAllFlag); err == nil && all {
			return pflag.ErrHelp
		}
		return check(cmd, args)
	}
}

// helpText is the help of a command. Examples come first, because most readers want a line to copy.
func helpText(c *cobra.Command, all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nExamples:\n%s\n", c.Short, c.Example)
	text, exits := splitExits(c.Long)
	parts := []string{text}
	if all {
		parts = append(parts, c.Annotations[detailsKey])
	}
	for _, part := range append(parts, exits) {
		if part = strings.TrimSpace(part); part != "" {
			fmt.Fprintf(&b, "\n%s\n", fill(part))
		}
	}
	fmt.Fprintf(&b, "\nUsage: %s\n", synopsis(c))
	if c.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	hidden := writeFlags(&b, c, all)
	switch {
	case hidden > 0:
		fmt.Fprintf(&b, "\n`%s --help-all` shows %d more flags and the details.\n", c.CommandPath(), hidden)
	case !all && c.Annotations[detailsKey] != "":
		fmt.Fprintf(&b, "\n`%s --help-all` shows the details.\n", c.CommandPath())
	case c.HasAvailableSubCommands():
		fmt.Fprintf(&b, "\n`%s COMMAND --help` explains one command.\n", c.CommandPath())
	}
	return b.String()
}

// splitExits separates a long description from its list of exit codes.
func splitExits(long string) (text, exits string) {
	text, list, found := strings.Cut(long, exitCodes)
	if !found {
		return text, ""
	}
	return text, exitCodes + list
}

type flagSection struct {
	title string
	flags []*pflag.Flag
}

// sectionsOf groups all visible flags of a command: its own, then the global ones.
func sectionsOf(c *cobra.Command) []flagSection {
	sections := []flagSection{{title: "Flags"}}
	for _, g := range flagGroups {
		sections = append(sections, flagSection{title: g.title})
	}
	global := flagSection{title: "Global flags"}
	persistent := c.Root().PersistentFlags()
	own := 0
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && persistent.Lookup(f.Name) == nil && f.Name != "help" && f.Name != helpAllFlag {
			own++
		}
	})
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || persistent.Lookup(f.Name) != nil {
			return
		}
		i := 0
		if own > ungrouped {
			i = 1 + groupOf(c, f.Name)
		}
		if f.Name == "help" || f.Name == helpAllFlag {
			global.flags = append(global.flags, f)
			return
		}
		sections[i].flags = append(sections[i].flags, f)
	})
	for i := range sections[1:] {
		order := flagGroups[i].flags
		slices.SortStableFunc(sections[1+i].flags,
			func(a, b *pflag.Flag) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
	}
	persistent.VisitAll(func(f *pflag.Flag) { global.flags = append(global.flags, f) })
	slices.SortFunc(global.flags, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	return append(sections, global)
}

// commandName is a command's name without the program's: "table check".
func commandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// groupOf is the index of a flag's group, or -1.
func groupOf(c *cobra.Command, name string) int {
	for _, key := range []string{c.Name() + "/" + name, parent(c) + "/" + name, name} {
		for i, g := range flagGroups {
			if slices.Contains(g.flags, key) {
				return i
			}
		}
	}
	return -1
}

func parent(c *cobra.Command) string {
	if c.HasParent() {
		return c.Parent().Name()
	}
	return ""
}

// writeFlags writes the flags of a command and returns the number of its own hidden flags.
func writeFlags(b *strings.Builder, c *cobra.Command, all bool) (hidden int) {
	common, short := commonFlags[commandName(c)]
	short = short && !all
	shown := sectionsOf(c)
	width := 0
	for i := range shown {
		s := &shown[i]
		if short {
			keep := common
			if s.title == "Global flags" {
				keep = commonGlobals
			}
			before := len(s.flags)
			s.flags = slices.DeleteFunc(s.flags, func(f *pflag.Flag) bool { return !slices.Contains(keep, f.Name) })
			hidden += before - len(s.flags)
		}
		for _, f := range s.flags {
			width = max(width, len(flagHead(f)))
		}
	}
	for _, s := range shown {
		if len(s.flags) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", s.title)
		for _, f := range s.flags {
			b.WriteString(explain.Hanging(fmt.Sprintf("  %-*s  ", width, flagHead(f)), flagUsage(f), helpWidth))
		}
	}
	return hidden
}

// placeholders name a flag's value by type.
var placeholders = map[string]string{"string": "TEXT", "strings": "LIST", "stringArray": "TEXT", "int": "N", "ints": "LIST", "uint": "N",
	"float": "X", "duration": "TIME"}

// flagHead is a flag with its short form and placeholder: "--output, -o FORMAT".
func flagHead(f *pflag.Flag) string {
	head := "--" + f.Name
	if f.Shorthand != "" {
		head += ", -" + f.Shorthand
	}
	if kind, _ := pflag.UnquoteUsage(f); kind != "" {
		if p, ok := placeholders[kind]; ok {
			kind = p
		}
		head += " " + strings.ToUpper(kind)
	}
	return head
}

func flagUsage(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	value := strings.Trim(f.DefValue, "[]")
	if slices.Contains([]string{"", "false", "0", "0s"}, value) {
		return usage
	}
	if strings.HasSuffix(value, "m0s") { // 5m0s of a duration
		value = strings.TrimSuffix(value, "0s")
	}
	return usage + " (default " + value + ")"
}

// fill wraps the paragraphs of a text to the help width. It keeps lists, whose lines are indented.
func fill(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		var lines, prose []string
		for line := range strings.SplitSeq(p, "\n") {
			if !strings.HasPrefix(line, " ") {
				prose = append(prose, line)
				continue
			}
			if len(prose) > 0 {
				lines, prose = append(lines, explain.Wrap(strings.Join(prose, " "), helpWidth)...), nil
			}
			lines = append(lines, line)
		}
		if len(prose) > 0 {
			lines = append(lines, explain.Wrap(strings.Join(prose, " "), helpWidth)...)
		}
		paragraphs[i] = strings.Join(lines, "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}

const exitCodes = "Exit codes:"
