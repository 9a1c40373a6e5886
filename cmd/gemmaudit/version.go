package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/cmd/gemmaudit/notices"
	"github.com/gemmaudit/gemmaudit/report"
)

// version, commit and date are set by the linker when the Makefile builds the program: the sources' git
// description, their commit, and its day in UTC.
var version, commit, date string

// buildVersion is the program's version: from the linker, else from the module proxy or version control at
// build time.
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
	if id, _ := buildCommit(); id != "" {
		return "devel-" + id
	}
	return "devel"
}

// buildCommit is the commit of the build in twelve digits and its day, as 2026-11-23. Both are empty if
// unknown.
func buildCommit() (id, day string) {
	if commit != "" {
		return commit, date
	}
	id = buildSetting("vcs.revision")
	day, _, _ = strings.Cut(buildSetting("vcs.time"), "T") // RFC 3339, in UTC
	return id[:min(12, len(id))], day
}

func buildSetting(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func versionText() string {
	from := ""
	if id, day := buildCommit(); id != "" {
		from = fmt.Sprintf("commit %s of %s, ", id, day)
	}
	return fmt.Sprintf("gemmaudit %s (%s%s, %s/%s)", buildVersion(), from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

type versionOptions struct {
	app     *app
	output  report.Format
	notices bool
}

type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // of the commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func newVersionCommand(a *app) *cobra.Command {
	opts := &versionOptions{app: a}
	cmd := &cobra.Command{
		Use:  "version",
		RunE: func(*cobra.Command, []string) error { return opts.run() },
	}
	cmd.Flags().BoolVar(&opts.notices, "notices", false, "print the licenses of third-party code instead")
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *versionOptions) run() error {
	if o.notices {
		if o.output != report.Table {
			return usagef("--notices is text: it has no format %s", o.output)
		}
		_, err := io.WriteString(o.app.stdout, notices.Text)
		return err
	}
	id, day := buildCommit()
	v := versionInfo{Version: buildVersion(), Commit: id, Date: day, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if o.output == report.Table {
		_, err := fmt.Fprintln(o.app.stdout, versionText())
		return err
	}
	return o.app.print(&report.Document{
		Subject: "the version",
		Value:   v,
		Sheets: []report.Sheet{{
			Columns: []report.Column{
				{Name: "version", Key: "version"}, {Name: "commit", Key: "commit"}, {Name: "date", Key: "date"}, {Name: "go", Key: "go"},
				{Name: "os", Key: "os"}, {Name: "arch", Key: "arch"},
			},
			Rows: [][]any{{v.Version, v.Commit, v.Date, v.Go, v.OS, v.Arch}},
		}},
	}, o.output)
}
