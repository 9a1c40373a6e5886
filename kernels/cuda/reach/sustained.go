package reach

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Sustained is a series of a product that ran alone for at least half a second. Under a power limit, an
// energy-efficient kernel gets a higher clock.
type Sustained struct {
	Product
	Series Series  `json:"series"`
	Label  string  `json:"label"`
	US     float64 `json:"us"`  // of a launch
	MHz    float64 `json:"mhz"` // of the SMs
	MJ     float64 `json:"mj"`  // per launch; 0 without an energy counter
	// Busy is the fraction of time when the card was busy. Idle time below 1 gives the following second
	// more power.
	Busy float64 `json:"busy"`
}

// SustainedJobs returns the named shapes in bf16, at a few M.
func SustainedJobs() []Job {
	var jobs []Job
	for _, p := range Products(0) {
		switch p.M {
		case 16, 256, 1024, 8192:
			if p.Set == Named && p.DType == "bf16" {
				jobs = append(jobs, Job{p, decisive(p.DType)})
			}
		}
	}
	return jobs
}

// WriteSustained writes one object a line.
func WriteSustained(w io.Writer, all []Sustained) error {
	to := json.NewEncoder(w)
	for _, s := range all {
		if err := to.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// PrintSustained prints ours with the faster peer, and geometric means of the peer's time ÷ ours.
func PrintSustained(w io.Writer, all []Sustained) error {
	fmt.Fprintf(w, "sustained %-28s %10s %8s %10s %10s %10s %8s %10s %7s %7s\n", "product", "ours us", "MHz", "mJ", "peer", "us", "MHz",
		"mJ", "time", "energy")
	var time, energy float64
	count, counted, busy := 0, 0, 1.0
	for _, ours := range all {
		if ours.Series != Auto {
			continue
		}
		peer := Sustained{US: math.Inf(1)}
		for _, s := range all {
			if s.Product == ours.Product && s.Series != Auto && s.US < peer.US {
				peer = s
			}
		}
		if math.IsInf(peer.US, 1) {
			continue
		}
		count++
		busy = min(busy, ours.Busy, peer.Busy)
		time += math.Log(peer.US / ours.US)
		saved := "-"
		if peer.MJ > 0 && ours.MJ > 0 {
			counted++
			energy += math.Log(peer.MJ / ours.MJ)
			saved = fmt.Sprintf("%.3f", peer.MJ/ours.MJ)
		}
		fmt.Fprintf(w, "sustained %-28v %10.2f %8.0f %10.3f %10s %10.2f %8.0f %10.3f %7.3f %7s\n",
			ours.Product, ours.US, ours.MHz, ours.MJ, peer.Series, peer.US, peer.MHz, peer.MJ, peer.US/ours.US, saved)
	}
	if count == 0 {
		return fmt.Errorf("no product of ours has a peer")
	}
	energies := "energy was not counted"
	if counted > 0 {
		energies = fmt.Sprintf("of energy %.3f", math.Exp(energy/float64(counted)))
	}
	_, err := fmt.Fprintf(w,
		"sustained %d products, the peer's ÷ ours: geometric mean of time %.3f, %s; the card was busy for %.3f of the time or more\n",
		count, math.Exp(time/float64(count)), energies, busy)
	return err
}
