package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// childError is the exit code of a child, which has printed its errors.
type childError struct{ code int }

func (e *childError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func bringsCode(cmd *cobra.Command) bool {
	for _, name := range []string{"kernel-file", "library"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return true
		}
	}
	f := cmd.Flags().Lookup("kernel")
	return f != nil && f.Changed && strings.Contains(f.Value.String(), "/")
}

// inChild runs the command line in a child, which prints all output.
func (a *app) inChild() error {
	a.waits.Store(true)
	code, err := a.supervise(a.args)
	if err != nil {
		return err
	}
	a.textfile.path = ""
	if code == exitClean {
		return nil
	}
	return &childError{code}
}

// isChild reports whether an error is the outcome of a child, which has printed it.
func isChild(err error) (code int, ok bool) {
	var child *childError
	if errors.As(err, &child) {
		return child.code, true
	}
	return 0, false
}
