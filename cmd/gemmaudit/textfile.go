package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report/metrics"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// textfile is what is written for the textfile collector of Prometheus' node_exporter, whatever a command ends with.
type textfile struct {
	path  string
	began time.Time
	told  metrics.Outcome
}

// register adds the flag to a command that reaches a verdict on a machine.
func (f *textfile) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "textfile", "", "also write the outcome as metrics of Prometheus to this *.prom `file`, for node_exporter's textfile collector")
	complete(cmd, "textfile", filesWith("prom"))
}

// textfileEnding is that of the files that the collector reads.
const textfileEnding = ".prom"

// begin notes which command runs, and refuses a file that the collector would not read or that can't be written.
func (f *textfile) begin(cmd *cobra.Command, now time.Time) error {
	f.told.Command, f.began = cmd.Name(), now
	if f.path == "" {
		return nil
	}
	path := f.path
	f.path = "" // nothing is written for a command line that is refused
	if !strings.HasSuffix(path, textfileEnding) {
		return usagef("--textfile: %q, expected a name that ends in %s, which the collector reads alone", path, textfileEnding)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return devicef("--textfile: write %q: %w", path, withoutPath(err))
	} else if !info.IsDir() {
		return devicef("--textfile: write %q: %q is no folder", path, filepath.Dir(path))
	}
	f.path = path
	return nil
}

// machine notes the devices that a command is about, before it measures any of them, and the labels of the machine.
func (f *textfile) machine(specs []kernels.Spec, labels results.Labels) {
	f.told.Meta = results.Meta{Fingerprint: results.ReadFingerprint(specs, buildVersion()), Labels: labels}
}

// run notes the run that is judged. Devices of the machine that it did not measure stay.
func (f *textfile) run(r *results.Run) {
	before := f.told.Meta.Fingerprint.Devices
	f.told.Meta, f.told.Run = r.Meta(), r.ID()
	devices := slices.Clone(f.told.Meta.Fingerprint.Devices)
	for _, d := range before {
		if !slices.ContainsFunc(devices, func(s kernels.Spec) bool { return s.ID == d.ID }) {
			devices = append(devices, d)
		}
	}
	f.told.Meta.Fingerprint.Devices = devices
}

// verdict notes the verdict on the run.
func (f *textfile) verdict(a *rules.Audit) { f.told.Audit = a }

// resultOf is how a command ended, by its exit code; empty for a command line that was refused.
func resultOf(code int) metrics.Result {
	switch code {
	case exitClean:
		return metrics.Clean
	case exitGate:
		return metrics.Failed
	case exitUsage:
		return ""
	case exitInconclusive:
		return metrics.Inconclusive
	case exitInterrupted:
		return metrics.Interrupted
	}
	return metrics.Broken
}

// writeTextfile writes the outcome of the command, which ended with err. What it returns is err, and what went wrong with
// writing.
func (a *app) writeTextfile(err error) error {
	o := a.textfile.told
	if o.Result = resultOf(exitCode(err)); a.textfile.path == "" || o.Result == "" {
		return err
	}
	o.Finished, o.Version = a.now(), buildVersion()
	o.Duration = o.Finished.Sub(a.textfile.began)
	// The file appears whole, under a name that the collector reads.
	failed := a.writeFile(a.textfile.path, true, func(w io.Writer) error { return metrics.Write(w, o) })
	if failed != nil {
		failed = fmt.Errorf("--textfile: %w", failed)
	}
	return besides(err, failed)
}
