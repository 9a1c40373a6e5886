package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
)

type devicesOptions struct {
	app     *app
	output  report.Format
	measure bool
}

func newDevicesCommand(a *app) *cobra.Command {
	opts := &devicesOptions{app: a}
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "Show what can be audited here, and how fast it could be",
		Example: examples(
			"gemmaudit devices",
			"gemmaudit devices --measure=false   # without the second that measuring takes",
			"gemmaudit devices -o json           # peaks and bandwidths for a script",
			"gemmaudit devices --kernel-file ./mine.so",
		),
		Long: `Lists each device with its cores, caches and instruction sets, the peak rate of every data
type (measured from registers and computed from units × width × clock; of a GPU the data
sheet's, dense, with the clock it belongs to), the measured memory bandwidth, and the kernels
and libraries that run on it or the reason why not, with the layouts of weights (kn, nk) that
a kernel packs ahead of timing.

GEMMAUDIT_ISA in the environment (portable, avx2, avx512-core, avx512-vnni, avx512, amx) caps the
instruction set of our kernels on a CPU. OpenBLAS has OPENBLAS_CORETYPE and oneDNN
ONEDNN_MAX_CPU_ISA for the same.

Without --device every device is shown. MFU in all other commands is relative to the
measured peak, or to the computed one where there is none, or to the data sheet's.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd.Context()) },
	}
	broughtFlags(a, cmd)
	outputFlag(cmd, &opts.output)
	cmd.Flags().BoolVar(&opts.measure, "measure", true, "measure peaks and bandwidths")
	return cmd
}

func (o *devicesOptions) run(ctx context.Context) error {
	a := o.app
	devices := a.registry().Devices()
	if a.device != "auto" {
		var err error
		if devices, err = a.devices(); err != nil {
			return err
		}
	} else if err := a.bring(devices); err != nil {
		return err
	}
	var infos []report.DeviceInfo
	var failure error // of the first device that can't be measured; it is shown all the same
	for _, d := range devices {
		var ceilings *kernels.Ceilings
		if o.measure {
			c, err := d.Ceilings(ctx)
			switch {
			case ctx.Err() != nil:
				return err
			case err == nil:
				ceilings = &c
			case failure == nil:
				failure = devicef("measure %s: %w", d.Spec().ID, err)
			}
		}
		infos = append(infos, report.Describe(d, ceilings))
	}
	if err := a.wrapPrint(report.WriteDevices(a.stream(a.stdout), o.output, infos, a.registry().Missing())); err != nil {
		return err
	}
	return failure
}
