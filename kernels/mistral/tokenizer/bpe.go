package tokenizer

import "unicode/utf8"

// bpe is the model: which characters or bytes are tokens, and which neighbors merge.
type bpe struct {
	vocab   map[string]int32 // whole words, with ignoreMerges, and results of ranked merges
	chars   map[rune]int32   // tokens of one character
	bytes   [256]int32       // tokens of one byte, -1 if none
	merges  map[uint64]merge // by pair
	unknown int32            // -1: characters without a token are dropped

	fallback     bool // characters without a token are spelled in bytes
	fuse         bool // adjacent unknown characters are one token
	ignoreMerges bool // a word in the vocabulary is one token, regardless of merges
	byteLevel    bool // words are merged from their bytes; there is no byte fallback
	ranked       bool // neighbors merge if the vocabulary has both as one token, lowest id first

	// joins are the character pairs, last of the left and first of the right token, that some merge joins.
	// Words are cut at all other pairs into segments, which are merged separately and fit into the L1 cache.
	joins map[uint64]struct{}
	// whole disables segments: some merges name tokens that do not spell their characters.
	whole bool
}

// merge makes one token of two. Lower ranks merge first.
type merge struct{ rank, id int32 }

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

const none rune = -1

// word converts words to ids. Its buffers are reused from word to word.
type word struct {
	*bpe
	text    string
	ids     []int32
	symbols []symbol
	last    rune
	queue   queue
}

// symbol is a token of a segment in a linked list with ends -1.
type symbol struct {
	id         int32 // -1 after merging into its left neighbor
	prev, next int32
	start      int32 // start of its text, used by ranked models
}

func (m *bpe) word() *word { return &word{bpe: m} }

func (w *word) encode(ids []int32, text string) []int32 {
	if w.ignoreMerges {
		if id, ok := w.vocab[text]; ok {
			return append(ids, id)
		}
	}
	w.text, w.ids, w.last = text, ids, none
	if w.byteLevel {
		w.addBytes(text)
		w.merge()
		return w.ids
	}
	unknown := false // an unknown character's token is pending
	settle := func() {
		if unknown {
			w.add(w.unknown, none)
			unknown = false
		}
	}
	for i, r := range text {
		if id, ok := w.chars[r]; ok {
			settle()
			w.add(id, r)
			continue
		}
		char := text[i : i+utf8.RuneLen(r)]
		// Bytes are output before a preceding unknown character, as in the library.
		if w.fallback && w.spell(char) {
			continue
		}
		if !w.fuse {
			settle()
		}
		unknown = w.unknown >= 0
	}
	settle()
	w.merge()
	return w.ids
}

// addBytes adds a symbol for each byte. Bytes without a token are unknown.
func (w *word) addBytes(text string) {
	unknown := false // the previous byte was unknown
	for i := range len(text) {
		id := w.bytes[text[i]]
		if id < 0 {
			if w.unknown < 0 || unknown && w.fuse {
				continue
			}
			id = w.unknown
		}
		unknown = w.bytes[text[i]] < 0
		w.symbols = append(w.symbols, symbol{id: id, start: int32(i)})
	}
}

// spell adds the bytes of char and returns true, or false if a byte has no token.
func (w *word) spell(char string) bool {
	for i := range len(char) {
		if w.bytes[char[i]] < 0 {
			return false
		}
	}
	for i := range len(char) {
		w.add(w.bytes[char[i]], none)
	}
	return true
}

func (w *word) add(id int32, char rune) {
	if !w.whole && len(w.symbols) > 0 {
		if _, ok := w.joins[pair(w.last, char)]; !ok {
			w.merge()
		}
	}
	w.symbols = append(w.symbols, symbol{id: id})
	w.last = char
}

// merge merges the segment's symbols, lowest rank and then leftmost first, appends the resulting ids and
// clears the symbols. Each merge takes one removal and two insertions in the queue, so n symbols take O(n log
// n).
func (w *word) merge() {
	s := w.symbols
	defer func() { w.symbols = w.symbols[:0] }()
	if len(s) <= 1 {
		for _, one := range s {
			w.ids = append(w.ids, one.id)
		}
		return
	}
	w.queue = w.queue[:0]
	for i := range s {
		s[i].prev, s[i].next = int32(i-1), int32(i+1)
	}
	s[len(s)-1].next = -1
	for i := range s[1:] {
		w.consider(int32(i))
	}
	for len(w.queue) > 0 {
		top := w.queue.pop()
		left := &s[top.at]
		if left.id < 0 || left.next < 0 {
			continue
		}
		right := &s[left.next]
		if m, ok := w.joined(top.at); !ok || m.id != top.id {
			continue // one of the two has merged since
		}
		left.id, right.id = top.id, -1
		left.next = right.next
		if right.next >= 0 {
			s[right.next].prev = top.at
		}
		w.consider(left.prev)
		w.consider(top.at)
	}
	for i := int32(0); i >= 0; i = s[i].next {
		w.ids = append(w.ids, s[i].id)
	}
}

// consider queues the merge of the symbol at at with its right neighbor, if both and the merge exist.
func (w *word) consider(at int32) {
	if at < 0 || w.symbols[at].next < 0 {
		return
	}
	if m, ok := w.joined(at); ok {
		w.queue.push(candidate{m, at})
	}
}

// joined returns the merge of the symbol at at and its right neighbor, which must exist, and whether there is
// one.
func (w *word) joined(at int32) (merge, bool) {
	left := &w.symbols[at]
	right := &w.symbols[left.next]
	if !w.ranked {
		m, ok := w.merges[pair(left.id, right.id)]
		return m, ok
	}
	end := int32(len(w.text))
	if right.next >= 0 {
		end = w.symbols[right.next].start
	}
	id, ok := w.vocab[w.text[left.start:end]]
	return merge{id, id}, ok
}

type candidate struct {
	merge
	at int32
}

func (c candidate) less(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// queue is a binary heap of candidates. It is container/heap without an interface value per element.
type queue []candidate

func (q *queue) push(c candidate) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !c.less(h[parent]) {
			break
		}
		h[i], i = h[parent], parent
	}
	h[i] = c
	*q = h
}

func (q *queue) pop() candidate {
	h := *q
	top, c := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].less(h[child]) {
			child++
		}
		if !h[child].less(c) {
			break
		}
		h[i], i = h[child], child
	}
	if len(h) > 0 {
		h[i] = c
	}
	*q = h
	return top
}
