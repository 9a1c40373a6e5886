package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/kernels"
)

type completionFunc = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete registers f for a flag of cmd. It panics on an unknown flag, so every test detects the mistake.
func complete(cmd *cobra.Command, flag string, f completionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// addFlag declares a flag of cmd with its destination, name, default, help and completion.
func addFlag[T any](cmd *cobra.Command, to *T, name string, def T, help string, offers completionFunc) {
	declare(cmd.Flags(), to, name, def, help)
	complete(cmd, name, offers)
}

// declare adds a flag of the type that to points to. A def of another type stands for the zero value.
func declare(flags *pflag.FlagSet, to any, name string, def any, help string) {
	switch to := to.(type) {
	case *string:
		flags.StringVar(to, name, or[string](def), help)
	case *[]string:
		flags.StringSliceVar(to, name, or[[]string](def), help)
	case *int:
		flags.IntVar(to, name, or[int](def), help)
	case *[]int:
		flags.IntSliceVar(to, name, or[[]int](def), help)
	case *uint64:
		flags.Uint64Var(to, name, or[uint64](def), help)
	case *float64:
		flags.Float64Var(to, name, or[float64](def), help)
	case *bool:
		flags.BoolVar(to, name, or[bool](def), help)
	case *time.Duration:
		flags.DurationVar(to, name, or[time.Duration](def), help)
	default:
		panic(fmt.Sprintf("--%s: unsupported type %T", name, to))
	}
}

func or[T any](def any) T {
	v, _ := def.(T)
	return v
}

// completeNoFiles offers nothing for the flags that have no completion: their values are no files.
func completeNoFiles(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, known := cmd.GetFlagCompletionFunc(f.Name); !known && f.NoOptDefVal == "" {
			complete(cmd, f.Name, cobra.NoFileCompletions)
		}
	})
}

func fixed(values ...string) completionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// listOf completes a flag with comma-separated values and keeps the typed ones.
func listOf(values func() []string) completionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		prefix := ""
		if i := strings.LastIndexByte(typed, ','); i >= 0 {
			prefix = typed[:i+1]
		}
		taken := strings.Split(prefix, ",")
		var out []cobra.Completion
		for _, v := range values() {
			name, _, _ := strings.Cut(v, "\t")
			if !slices.Contains(taken, name) {
				out = append(out, prefix+v)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// kernelFiles are the extensions of files with kernels.
var kernelFiles = []string{"py", "so", "dylib"}

// completeKernels offers kernel names, and files once a path is started.
func (a *app) completeKernels(names func() []string) completionFunc {
	named := listOf(names)
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if isFile(typed) || strings.HasPrefix(typed, ".") {
			return kernelFiles, cobra.ShellCompDirectiveFilterFileExt
		}
		return named(cmd, args, typed)
	}
}

func (a *app) completeDevices(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	out := []cobra.Completion{cobra.CompletionWithDesc("auto", "the first GPU, else the CPU")}
	var cards []kernels.KindFacts
	for _, d := range a.registry().Devices() {
		s := d.Spec()
		out = append(out, cobra.CompletionWithDesc(s.ID, s.Name))
		if f := s.Kind.Facts(); f.Card && !slices.ContainsFunc(cards, func(c kernels.KindFacts) bool { return c.Kind == f.Kind }) {
			cards = append(cards, f)
		}
	}
	for _, f := range cards {
		out = append(out, cobra.CompletionWithDesc(string(f.Kind)+":all", "every "+f.Name))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

func (a *app) kernelNames() []string {
	devices, err := a.registry().Select(a.device)
	if err != nil {
		return nil
	}
	var names []string
	for _, d := range devices {
		for _, o := range kernels.Operations() {
			for _, k := range d.Kernels(o) {
				if line := cobra.CompletionWithDesc(k.Name(), k.Describe()); !slices.Contains(names, line) {
					names = append(names, line)
				}
			}
		}
	}
	return names
}

func (a *app) dtypeNames() []string {
	devices, err := a.registry().Select(a.device)
	if err != nil {
		return nil
	}
	var names []string
	for _, d := range kernels.DTypes() {
		p := kernels.Task{Subject: kernels.Product(d, 64, 64), M: 1}
		has := slices.ContainsFunc(devices, func(device kernels.Device) bool {
			return slices.ContainsFunc(kernels.Products(device), func(g kernels.Kernel) bool { return g.Supports(p) == nil })
		})
		if has {
			names = append(names, string(d))
		}
	}
	return names
}

func filesWith(extensions ...string) completionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// runFiles offers run files for up to n arguments (0 for any number), beginning with those below out/, the
// default folder of `run`.
func runFiles(n int) completionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if n > 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if typed == "" {
			if found, err := filepath.Glob("out/*/run.db"); err == nil && len(found) > 0 {
				slices.Sort(found)
				slices.Reverse(found) // newest first: folder names begin with the time
				if here, err := filepath.Glob("*.db"); err == nil {
					found = append(found, here...)
				}
				return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
			}
		}
		return []cobra.Completion{"db"}, cobra.ShellCompDirectiveFilterFileExt
	}
}

func anyFile(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
