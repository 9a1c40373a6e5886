package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/notices"
	"github.com/gemmaudit/gemmaudit/report"
)

// version is set by the linker when the Makefile builds the program.
var version string

// buildVersion is the version of this program: what the linker was told, else
// what the module proxy or the version control said at build time.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

// versionText is the version of this program in one line.
func versionText() string {
	return fmt.Sprintf("gemmaudit %s (%s, %s/%s)", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

type versionOptions struct {
	app     *app
	output  report.Format
	notices bool
}

// versionInfo is what `version -o json` prints.
type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func newVersionCommand(a *app) *cobra.Command {
	opts := &versionOptions{app: a}
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the program's version",
		Example: examples("gemmaudit version", "gemmaudit version -o json", "gemmaudit version --notices"),
		Long: `Prints what was built, with which Go, for which machine. The version is stored in every run.
--notices prints the notices and licences of others' work that the program holds.`,
		RunE: func(*cobra.Command, []string) error { return opts.run() },
	}
	cmd.Flags().BoolVar(&opts.notices, "notices", false, "print the notices and licences of others' work instead")
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *versionOptions) run() error {
	if o.notices {
		if o.output != report.Table {
			return usagef("--notices is text: it has no form %s", o.output)
		}
		_, err := io.WriteString(o.app.stdout, notices.Text)
		return err
	}
	v := versionInfo{Version: buildVersion(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if o.output == report.Table {
		_, err := fmt.Fprintln(o.app.stdout, versionText())
		return err
	}
	return o.app.print(&report.Document{
		Subject: "the version",
		Value:   v,
		Sheets: []report.Sheet{{
			Columns: []report.Column{
				{Name: "version", Key: "version"}, {Name: "go", Key: "go"},
				{Name: "os", Key: "os"}, {Name: "arch", Key: "arch"},
			},
			Rows: [][]any{{v.Version, v.Go, v.OS, v.Arch}},
		}},
	}, o.output)
}
