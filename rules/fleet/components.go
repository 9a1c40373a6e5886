package fleet

import "math"

// Components are what times of one case differ by between cards of a model that are none of the outliers, as standard deviations of
// log times: 0.003 is 0.3 %. Nil is what can't be told apart from the others.
type Components struct {
	// Host is between hosts. It takes hosts with several cards each.
	Host *float64 `json:"host"`
	// Card is between cards of a host, and holds what hosts differ by where Host is nil.
	Card *float64 `json:"card"`
	// Process is between processes on one card. It takes cards with several runs; Card holds it where it is nil.
	Process *float64 `json:"process"`
	// Hosts, Cards and Processes are how many there were of each.
	Hosts     int `json:"hosts"`
	Cards     int `json:"cards"`
	Processes int `json:"processes"`
}

// components estimates the sources of variance by moments of unweighted means (Searle, Casella and McCulloch 1992, 5.3), which
// stand processes and cards in any number: the means of a host's cards scatter by cards and by processes, the means of hosts by hosts too.
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
		// What was believed beforehand steadies the tests; it is no estimate.
		process = math.Max(0, (f.process*(f.freedom+priorProcesses)-priorProcesses*usualProcesses*usualProcesses)/f.freedom)
		sd := math.Sqrt(process)
		out.Process = &sd
	}
	about := func(c int) float64 { return f.means[c] - f.centre[s.levels[s.of[c][0]].peers] }
	inverse := s.meanInverse(f)
	var within, freedom, cardsInverse float64 // of cards within hosts
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
	// Fewer hosts, or fewer cards that share one, tell nothing.
	const least = 3
	if len(hosts) >= least && freedom >= least {
		ofCards := within / freedom // holds what processes do to a card's mean
		between, m := 0.0, mean(hosts)
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
