package main

import (
	"github.com/spf13/cobra"
)

func newCompletionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for bash, zsh, fish or powershell",
		Example: examples(
			"source <(gemmaudit completion bash)                                        # this shell",
			"gemmaudit completion bash > /etc/bash_completion.d/gemmaudit               # every shell",
			`gemmaudit completion zsh > "${fpath[1]}/_gemmaudit"`,
			"gemmaudit completion fish > ~/.config/fish/completions/gemmaudit.fish",
		),
		Long: `The script asks gemmaudit itself for values: devices and kernels of this machine, models,
data types, presets, rules, formats and run files.`,
		Args:      exactArgs("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			}
			return usagef("unknown shell %q: expected one of bash, zsh, fish, powershell", args[0])
		},
	}
}
