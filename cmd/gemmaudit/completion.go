package main

import (
	"bytes"
	"strings"

	"github.com/spf13/cobra"
)

// bashAlone replaces functions of the bash-completion package in shells without it. It splits words only at
// blanks and offers files by extension.
const bashAlone = `# Of the command line up to the cursor, words as blanks divide them.
__gemmaudit_words()
{
    local rest=${COMP_LINE:0:COMP_POINT} word i
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i == 0)) || [[ $rest == [[:space:]]* ]]; then
            rest=${rest#"${rest%%[![:space:]]*}"}
            words+=("")
        fi
        word=${COMP_WORDS[i]}
        if ((i == COMP_CWORD)); then word=$rest; fi
        words[${#words[@]}-1]+=$word
        rest=${rest:${#word}}
    done
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=
    if ((cword > 0)); then prev=${words[cword-1]}; fi
}

# Files that begin with the current word: folders only with -d, or of extensions "db|csv|".
__gemmaudit_filedir()
{
    if declare -F _filedir >/dev/null 2>&1; then
        _filedir "$@"
        return
    fi
    local begun=${cur#--*=} extensions=${1%|} file
    compopt -o filenames 2>/dev/null
    while IFS= read -r file; do
        COMPREPLY+=("$file")
    done < <(compgen -d -- "$begun")
    if [[ $extensions == -d ]]; then return; fi
    while IFS= read -r file; do
        if [[ ! -d $file && ( -z $extensions || $file =~ \.($extensions)$ ) ]]; then
            COMPREPLY+=("$file")
        fi
    done < <(compgen -f -- "$begun")
}
`

// bashCompletion is cobra's script for bash, independent of the bash-completion package.
func bashCompletion(root *cobra.Command) (string, error) {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return "", err
	}
	return strings.NewReplacer(
		`_get_comp_words_by_ref "$@" cur prev words cword`, "__gemmaudit_words",
		"_filedir", "__gemmaudit_filedir",
	).Replace(script.String()) + bashAlone, nil
}

// zshCompletion is cobra's script for zsh. It loads the shell's completion system if necessary.
func zshCompletion(root *cobra.Command) (string, error) {
	var script bytes.Buffer
	if err := root.GenZshCompletion(&script); err != nil {
		return "", err
	}
	const first = "#compdef gemmaudit\n"
	return first + "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n" + strings.TrimPrefix(script.String(), first), nil
}

func newCompletionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion SHELL",
		Args:      exactArgs("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				script, err := bashCompletion(root)
				if err != nil {
					return err
				}
				return a.write(strings.TrimSuffix(script, "\n"))
			case "zsh":
				script, err := zshCompletion(root)
				if err != nil {
					return err
				}
				return a.write(strings.TrimSuffix(script, "\n"))
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			}
			return usagef("unknown shell %q: expected one of bash, zsh, fish, powershell", args[0])
		},
	}
}
