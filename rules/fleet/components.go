package fleet

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Components are the sources of variation of one case's times between normal cards of a model, as standard
// deviations of log times: 0.003 is 0.3 %. Nil means that a source can't be separated from the others.
type Components struct {
	// Host is between hosts. It needs hosts with several cards each.
	Host *float64 `json:"host"`
	// Card is between cards of a host, and includes variation between hosts if Host is nil.
	Card *float64 `json:"card"`
	// Process is between processes on one card. It needs cards with several runs; if it is nil, Card includes
	// it.
	Process *float64 `json:"process"`
	// Hosts, Cards and Processes are the numbers of each.
	Hosts     int `json:"hosts"`
	Cards     int `json:"cards"`
	Processes int `json:"processes"`
}

// components uses moments of unweighted means (Searle, Casella and McCulloch 1992, 5.3), which allow any
// number of processes and cards. The means of a host's cards vary by cards and processes, the means of hosts
// also by hosts.
func (s *separation) components(f *fitted) Components {
	var out Components
	byHost := map[int][]int{}
	for _, c := range s.present {
		if !f.peer[c] {
			continue
		}
		out.Cards++
		out.Processes += s.kept(f, c)
		host := s.levels[s.of[c][0]].host
		byHost[host] = append(byHost[host], c)
	}
	out.Hosts = len(byHost)
	process := 0.0
	if f.freedom >= 1 {
		// The prior stabilizes the tests; it is removed from the estimate.
		process = math.Max(0, (f.process*(f.freedom+priorProcesses)-priorProcesses*usualProcesses*usualProcesses)/f.freedom)
		sd := math.Sqrt(process)
		out.Process = &sd
	}
	about := func(c int) float64 { return f.means[c] - f.centre[s.levels[s.of[c][0]].peers] }
	inverse := s.meanInverse(f)
	var within, freedom, cardsInverse float64
	var hosts []float64
	for _, cards := range byHost {
		m := 0.0
		for _, c := range cards {
			m += about(c) / float64(len(cards))
		}
		for _, c := range cards {
			within += (about(c) - m) * (about(c) - m)
		}
		freedom += float64(len(cards) - 1)
		cardsInverse += 1 / float64(len(cards)) / float64(len(byHost))
		hosts = append(hosts, m)
	}
	// With fewer hosts, or fewer cards that share one, the component is unknown.
	const least = 3
	if len(hosts) >= least && freedom >= least {
		ofCards := within / freedom // includes the variation of processes in a card's mean
		between, m := 0.0, stats.Mean(hosts)
		for _, x := range hosts {
			between += (x - m) * (x - m) / float64(len(hosts)-1)
		}
		host := math.Sqrt(math.Max(0, between-ofCards*cardsInverse))
		card := math.Sqrt(math.Max(0, ofCards-process*inverse))
		out.Host, out.Card = &host, &card
		return out
	}
	if out.Cards < 2 {
		return out
	}
	squares, n := 0.0, 0.0
	for set, peers := range f.peers {
		if peers > 1 {
			n += peers - 1
		}
		for _, c := range s.present {
			if f.peer[c] && s.levels[s.of[c][0]].peers == set {
				squares += about(c) * about(c)
			}
		}
	}
	if n > 0 {
		card := math.Sqrt(math.Max(0, squares/n-process*inverse))
		out.Card = &card
	}
	return out
}
