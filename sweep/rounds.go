package sweep

// roundSet is the rounds of a case that are done. A night has millions of cases, and all its rounds are to take
// no memory that is not there from its beginning.
type roundSet struct {
	words []uint64
	n     int // how many are in it
}

// newRoundSet has room for so many rounds.
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
