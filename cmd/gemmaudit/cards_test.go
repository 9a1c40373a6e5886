package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// cardsOfHost is a host of four simulated cards, equal except for the script's changes.
type cardsOfHost []*simulated.Device

// newCards makes the host that a script describes in CARDS, as words for single cards:
//
//	lost:2:60     card 2 falls off the bus after 60 blocks
//	slow:1:1.2    card 1 takes 1.2 times as long
//	clock:1:1500  card 1 runs at that many MHz instead of 1800, and all cards report their clocks
//	fail:3:8      on card 3 every launch of m8 fails
//	tire:3:60     on card 3 launches of m8 fail after 60
//	memory:0:1    card 0 has that many MiB of memory; if negative, it can't be opened
//	float:3:      card 3 has no bf16
//	count:2:      there are two cards
func newCards(description string) cardsOfHost {
	const number = 4
	values := map[string]float64{}
	for word := range strings.FieldsSeq(description) {
		what, value, _ := strings.Cut(word, ":")
		card, value, _ := strings.Cut(value, ":")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			v = 1
		}
		values[what+card] = v
	}
	count := number
	for n := range number {
		if values[fmt.Sprint("count", n)] != 0 {
			count = n
		}
	}
	var out cardsOfHost
	for i := range count {
		of := func(what string) float64 { return values[what+strconv.Itoa(i)] }
		flat := simulated.Linear(200e9, 2e-6)
		if factor := of("slow"); factor > 0 {
			flat = simulated.Slow(flat, 1, 1<<30, factor)
		}
		types := []kernels.DType{kernels.FP32, kernels.BF16}
		if of("float") > 0 {
			types = types[:1]
		}
		clock := 0.0
		if strings.Contains(description, "clock:") {
			clock = 1800
		}
		if mhz := of("clock"); mhz > 0 {
			clock = mhz
		}
		cfg := simulated.Config{
			ID: fmt.Sprintf("cuda:%d", i), Kind: kernels.CUDA, Seed: uint64(i + 1), Noise: simulated.Disturbances{Sigma: 0.005},
			LastLevelCacheBytes: 64 << 10, HostOverhead: 100 * time.Microsecond, ClockMHz: clock,
			MemoryBytes: int64(of("memory") * (1 << 20)), LoseAfter: int(of("lost")),
			Gemms: []simulated.KernelConfig{{Name: "flat", DTypes: types, Cost: flat, Packs: true}},
		}
		for _, d := range types {
			cfg.Ceilings.Peaks = append(cfg.Ceilings.Peaks,
				kernels.Peak{DType: d, FLOPS: 250e9, Origin: kernels.DataSheet, ClockMHz: 2000, Unit: "tensor core"})
		}
		if m := int(of("fail")); m > 0 {
			cfg.Gemms[0].ExecuteError = func(p kernels.Task) error {
				if p.M == m {
					return errors.New("launch failed: too many resources requested")
				}
				return nil
			}
		}
		if most := int(of("tire")); most > 0 {
			launched := 0
			cfg.Gemms[0].ExecuteError = func(p kernels.Task) error {
				if p.M == 8 {
					launched++
				}
				if p.M == 8 && launched > most {
					return errors.New("launch failed: too many resources requested")
				}
				return nil
			}
		}
		out = append(out, simulated.New(cfg))
	}
	return out
}

func (c cardsOfHost) Open() (out []kernels.Device, missing []kernels.Missing) {
	for _, d := range c {
		if d.Spec().MemoryBytes < 0 {
			missing = append(missing, kernels.Missing{Name: d.Spec().ID, Reason: "it is in compute mode prohibited", Broken: true})
			continue
		}
		out = append(out, d)
	}
	return out, missing
}

func (c cardsOfHost) now() time.Time {
	last := c[0].Now()
	for _, d := range c {
		if t := d.Now(); t.After(last) {
			last = t
		}
	}
	return last
}
