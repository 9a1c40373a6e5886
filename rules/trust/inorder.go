package trust

import (
	"context"
	"errors"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// restBetween lets a device recover between rounds.
const restBetween = 5 * time.Second

// examineInOrder judges unshuffled samples, without new measurements.
func (s *subject) examineInOrder(ctx context.Context) error {
	device := s.machine.Open(simulated.Session{Seed: s.rng.Uint64()})
	data, err := measureInOrder(ctx, device, s.machine)
	if err != nil {
		return errors.Join(err, device.Close())
	}
	v := &visit{name: "in-order", device: device, data: data, truth: newTruth(s.machine, simulated.NominalClockMHz)}
	audit, err := rules.RunAudit(ctx, data, s.cfg, nil)
	if err != nil {
		return errors.Join(err, device.Close())
	}
	s.scoreAudit(v, audit)
	return device.Close()
}

func measureInOrder(ctx context.Context, device *simulated.Card, machine *simulated.Machine) (infer.Data, error) {
	ceilings, err := device.Ceilings(ctx)
	if err != nil {
		return infer.Data{}, err
	}
	peak, _ := ceilings.Peak(kernels.BF16)
	data := infer.Data{Name: "in-order", Meta: results.Meta{
		Source: "samples in order of M", Regime: results.Engine,
		Fingerprint: results.Fingerprint{Devices: []kernels.Spec{device.Spec()}},
	}}
	var seq int64
	for _, g := range kernels.Products(device) {
		key := results.SeriesKey{Device: simulated.DeviceID, Kernel: g.Name(), Subject: kernels.Product(kernels.BF16, weightsN, weightsK),
			Regime: results.Engine}
		series := results.Series{Key: key, Peak: peak, Bandwidth: ceilings.Bandwidth(key.Operation)}
		var launches []kernels.Launch
		for _, m := range grid() {
			l, err := device.Launch(g.Name(), m)
			if err != nil {
				return data, err
			}
			launches = append(launches, l)
			series.Rows = append(series.Rows,
				results.Row{Case: results.Case{ID: int64(len(data.Series)*len(grid()) + len(series.Rows) + 1), SeriesKey: key, M: m}})
		}
		for round := range 2 * screening {
			device.Rest(restBetween)
			for i := range series.Rows {
				r := &series.Rows[i]
				n := max(1, int(1e-3/machine.Seconds(g.Name(), []int{r.Case.M}, simulated.NominalClockMHz).Lo))
				started := device.Now()
				span, err := device.Execute(ctx, launches[i:i+1], n)
				if err != nil {
					return data, err
				}
				r.Samples = append(r.Samples, results.Sample{
					CaseID: r.Case.ID, Phase: results.PhaseSweep, Round: round, Seq: seq, StartedUnixMicro: started.UnixMicro(),
					Launches: n, US: span.Seconds / float64(n) * 1e6, ClockMHz: span.ClockMHz,
				})
				seq++
			}
		}
		data.Series = append(data.Series, series)
	}
	return data, nil
}
