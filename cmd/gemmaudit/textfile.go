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

// textfile holds the data for the textfile collector of Prometheus' node_exporter, written however a command
// ends.
type textfile struct {
	path  string
	began time.Time
	told  metrics.Outcome
}

func (f *textfile) register(cmd *cobra.Command) {
	addFlag(cmd, &f.path, "textfile", "", "also write Prometheus metrics to this *.prom `file`, for node_exporter", filesWith("prom"))
}

// textfileEnding is the extension that the collector reads.
const textfileEnding = ".prom"

// begin records the command, and rejects a file that the collector would not read or that cannot be written.
func (f *textfile) begin(cmd *cobra.Command, now time.Time) error {
	f.told.Command, f.began = cmd.Name(), now
	if f.path == "" {
		return nil
	}
	path := f.path
	f.path = "" // an invalid command line writes no file
	if !strings.HasSuffix(path, textfileEnding) {
		return usagef("--textfile: %q, expected a name that ends in %s, as the collector requires", path, textfileEnding)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return devicef("--textfile: write %q: %w", path, withoutPath(err))
	} else if !info.IsDir() {
		return devicef("--textfile: write %q: %q is not a folder", path, filepath.Dir(path))
	}
	f.path = path
	return nil
}

// machine records the command's devices before measuring, and the machine's labels.
func (f *textfile) machine(specs []kernels.Spec, labels results.Labels) {
	f.told.Meta = results.Meta{Fingerprint: results.ReadFingerprint(specs, buildVersion()), Labels: labels}
}

// run records the judged run. It keeps devices of the machine that the run did not measure.
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

func (f *textfile) verdict(a *rules.Audit) { f.told.Audit = a }

// resultOf is the result for an exit code; empty for an invalid command line.
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

// writeTextfile writes the outcome of the command, which ended with err. It returns err joined with any write
// error.
func (a *app) writeTextfile(err error) error {
	o := a.textfile.told
	if o.Result = resultOf(exitCode(err)); a.textfile.path == "" || o.Result == "" {
		return err
	}
	o.Finished, o.Version = a.now(), buildVersion()
	o.Duration = o.Finished.Sub(a.textfile.began)
	// The file must appear whole under its final name.
	failed := a.writeFile(a.textfile.path, true, func(w io.Writer) error { return metrics.Write(w, o) })
	if failed != nil {
		failed = fmt.Errorf("--textfile: %w", failed)
	}
	return joinErrors(err, failed)
}
