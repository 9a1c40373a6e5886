package trust

import (
	"context"
	"errors"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// restBetween lets a device recover between rounds that are taken in order of M.
const restBetween = 5 * time.Second

// examineInOrder judges samples that nobody shuffled. No device is asked again.
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

// measureInOrder takes rounds of a series, one M after the other.
func measureInOrder(ctx context.Context, device *simulated.Device, machine *simulated.Machine) (rules.Data, error) {
	ceilings, err := device.Ceilings(ctx)
	if err != nil {
		return rules.Data{}, err
	}
	peak, _ := ceilings.Peak(kernels.BF16)
	data := rules.Data{Name: "in-order", Meta: results.Meta{
		Source: "samples in order of M", Regime: results.Engine,
		Fingerprint: results.Fingerprint{Devices: []kernels.Spec{device.Spec()}},
	}}
	b, err := newBinder(device)
	if err != nil {
		return data, err
	}
	var seq int64
	for _, g := range device.Gemms() {
		key := results.SeriesKey{Device: simulated.DeviceID, Kernel: g.Name(), Subject: kernels.Product(kernels.BF16, weightsN, weightsK), Regime: results.Engine}
		series := results.Series{Key: key, Peak: peak, Bandwidth: ceilings.Bandwidth(key.Operation)}
		for _, m := range grid() {
			series.Rows = append(series.Rows, results.Row{Case: results.Case{ID: int64(len(data.Series)*len(grid()) + len(series.Rows) + 1), SeriesKey: key, M: m}})
		}
		for round := range 2 * screening {
			device.Rest(restBetween)
			for i := range series.Rows {
				r := &series.Rows[i]
				l, err := b.bind(g, r.Case.M)
				if err != nil {
					return data, err
				}
				n := max(1, int(1e-3/machine.Seconds(g.Name(), []int{r.Case.M}, simulated.NominalClockMHz).Lo))
				started := device.Now()
				span, err := device.Execute(ctx, []kernels.Launch{l}, n)
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
	return data, b.close()
}

// binder holds the operands of what is run without a sweeper.
type binder struct {
	buffers []kernels.Buffer // A, C, B
}

func newBinder(d kernels.Device) (*binder, error) {
	b := &binder{}
	last := grid()[len(grid())-1]
	for _, elements := range []int{last * weightsK, last * weightsN, weightsN * weightsK} {
		buf, err := d.Alloc(int64(elements) * int64(kernels.FP32.Size()))
		if err != nil {
			return nil, errors.Join(err, b.close())
		}
		b.buffers = append(b.buffers, buf)
	}
	return b, nil
}

func (b *binder) bind(g kernels.Gemm, m int) (kernels.Launch, error) {
	p := kernels.Problem{Shape: kernels.Shape{M: m, N: weightsN, K: weightsK}, DType: kernels.BF16}
	w, err := g.PrepareWeights(p, b.buffers[2])
	if err != nil {
		return nil, err
	}
	return g.Bind(p, kernels.Operand{Buffer: b.buffers[0]}, w, kernels.Operand{Buffer: b.buffers[1]})
}

func (b *binder) close() error {
	var errs []error
	for _, buf := range b.buffers {
		errs = append(errs, buf.Close())
	}
	return errors.Join(errs...)
}
