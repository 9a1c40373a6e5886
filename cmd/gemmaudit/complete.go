package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// completionFunc is what cobra calls for the values of an argument or a flag.
type completionFunc = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete registers f for a flag of cmd. A flag that does not exist is a
// mistake of the program, found by every test.
func complete(cmd *cobra.Command, flag string, f completionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// fixed offers values that are always the same.
func fixed(values ...string) completionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// listOf offers values for a flag that takes several, separated by commas:
// what is typed already stays in front.
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

// completeKernels offers kernels by name, and shared libraries once a path is begun.
func (a *app) completeKernels(names func() []string) completionFunc {
	named := listOf(names)
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if isFile(typed) || strings.HasPrefix(typed, ".") {
			return []cobra.Completion{"so", "dylib"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return named(cmd, args, typed)
	}
}

// completeDevices offers the devices of this machine.
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

// kernelNames lists the kernels of the selected devices with their descriptions.
func (a *app) kernelNames() []string {
	devices, err := a.registry().Select(a.device)
	if err != nil {
		return nil
	}
	var names []string
	for _, d := range devices {
		for _, o := range kernels.Operations() {
			for _, k := range kernels.Implementations(d, o) {
				if line := cobra.CompletionWithDesc(k.Name(), k.Describe()); !slices.Contains(names, line) {
					names = append(names, line)
				}
			}
		}
	}
	return names
}

// dtypeNames lists the data types that some kernel of the selected devices has.
func (a *app) dtypeNames() []string {
	devices, err := a.registry().Select(a.device)
	if err != nil {
		return nil
	}
	var names []string
	for _, d := range kernels.DTypes() {
		p := kernels.Problem{Shape: kernels.Shape{M: 1, N: 64, K: 64}, DType: d}
		has := slices.ContainsFunc(devices, func(device kernels.Device) bool {
			return slices.ContainsFunc(device.Gemms(), func(g kernels.Gemm) bool { return g.Supports(p) == nil })
		})
		if has {
			names = append(names, string(d))
		}
	}
	return names
}

// filesWith offers files of the given extensions, and folders on the way.
func filesWith(extensions ...string) completionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// runFiles offers run files for up to n arguments (0 for any number): the ones
// below out/ first, as that is where `run` leaves them.
func runFiles(n int) completionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if n > 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if typed == "" {
			if found, err := filepath.Glob("out/*/run.db"); err == nil && len(found) > 0 {
				slices.Sort(found)
				slices.Reverse(found) // newest first, as folders begin with the time
				if here, err := filepath.Glob("*.db"); err == nil {
					found = append(found, here...)
				}
				return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
			}
		}
		return []cobra.Completion{"db"}, cobra.ShellCompDirectiveFilterFileExt
	}
}

// folders offers folders.
func folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
