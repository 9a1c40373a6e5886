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
		Use:  "devices",
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
	var failure error // of the first device that cannot be measured; it is still shown
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

// tellConstants notes once per device if another card's constants plan its kernels.
func (a *app) tellConstants(devices []kernels.Device) {
	for _, d := range devices {
		c, ok := d.(kernels.ConstantsTeller)
		id := d.Spec().ID
		if !ok || a.toldConstants[id] {
			continue
		}
		if a.toldConstants == nil {
			a.toldConstants = map[string]bool{}
		}
		a.toldConstants[id] = true
		if k := c.Constants(); !k.Own {
			a.notef("%s: %s", id, report.ConstantsText(k))
		}
	}
}
