package sweep

// roundSet holds the finished rounds of a case. It allocates only at its creation, since a run may have
// millions of cases.
type roundSet struct {
	words []uint64
	n     int
}

func newRoundSet(rounds int) roundSet {
	return roundSet{words: make([]uint64, (rounds+63)/64)}
}

func (s *roundSet) has(round int) bool {
	word := round / 64
	return word < len(s.words) && s.words[word]>>(round%64)&1 != 0
}

func (s *roundSet) add(round int) {
	if s.has(round) {
		return
	}
	for round/64 >= len(s.words) {
		s.words = append(s.words, 0)
	}
	s.words[round/64] |= 1 << (round % 64)
	s.n++
}
