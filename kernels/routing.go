package kernels

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// MaxSkew limits the skew of a drawn routing: at 1000, the second expert has a thousandth of the first one's weight.
const MaxSkew = 1000

// MaxGroups limits the groups of a grouped product.
const MaxGroups = 4096

// checkRouting refuses inconsistent dimensions of a grouped product.
func checkRouting(s Subject) error {
	switch {
	case s.Groups > MaxGroups:
		return fmt.Errorf("%d groups, expected at most %d", s.Groups, MaxGroups)
	case s.Routing != 0 && (s.TopK != 0 || s.Skew != 0 || s.Draw != 0):
		return fmt.Errorf("a recorded routing has neither top_k, skew nor draw")
	case s.Draw == 0 && s.Skew != 0:
		return fmt.Errorf("skew %d without draw, the seed of a drawn routing", s.Skew)
	case s.Draw != 0 && s.TopK == 0:
		return fmt.Errorf("a drawn routing without top_k, the experts of each token")
	case s.TopK > s.Groups:
		return fmt.Errorf("top_k is %d, expected at most the %d groups", s.TopK, s.Groups)
	case s.Skew > MaxSkew:
		return fmt.Errorf("skew is %d, expected at most %d", s.Skew, MaxSkew)
	}
	return nil
}

// GroupRows returns the rows of each group of a grouped product with m rows in all. Rows are sorted by group.
//
//   - Even, without Draw and Routing: m rows divided as equally as possible, the first groups have one more.
//   - Drawn: each token has rows in TopK distinct groups, drawn one after the other with weights (i+1)^-(Skew/100). The
//     draws of a token depend on Draw and on the token's position alone, so more rows are those of fewer and further ones.
//     If TopK does not divide m, the last token has fewer rows.
//   - Recorded: what the table with the hash Routing says of m. The error says that the table or the m is missing.
func (s Subject) GroupRows(m int) ([]int, error) {
	s, m = s.At(m)
	switch {
	case s.Groups < 1 || m < 0:
		return nil, fmt.Errorf("%d rows in %d groups, expected at least 1 group", m, s.Groups)
	case s.Routing != 0:
		return recordedRows(s.Routing, s.Groups, m)
	case s.Draw != 0:
		return drawnOf(drawKey{s.Groups, s.TopK, s.Skew, s.Draw}).rows(m), nil
	}
	rows := make([]int, s.Groups)
	for i := range rows {
		if rows[i] = m / s.Groups; i < m%s.Groups {
			rows[i]++
		}
	}
	return rows, nil
}

// ActiveGroups returns how many groups have rows, out of m in all. It is at most Groups, and m; without its table, a
// recorded routing counts as if no group were idle.
func (s Subject) ActiveGroups(m int) int {
	s, m = s.At(m)
	switch most := max(0, min(m, s.Groups)); {
	case s.Routing == 0 && s.Draw == 0:
		return most
	case s.Draw != 0 && s.Groups > 0:
		return drawnOf(drawKey{s.Groups, s.TopK, s.Skew, s.Draw}).active(m)
	default:
		rows, err := s.GroupRows(m)
		if err != nil {
			return most
		}
		return len(rows) - count(rows, 0)
	}
}

func count(values []int, of int) (n int) {
	for _, v := range values {
		if v == of {
			n++
		}
	}
	return n
}

type drawKey struct{ groups, topK, skew, seed int }

// tokenDraws are the groups of the rows in token order, drawn as far as anyone asked.
type tokenDraws struct {
	key     drawKey
	weights []uint64
	groups  []uint16
	firsts  []int // rows before which a group gets its first, ascending
	seen    []bool
	mu      sync.Mutex
}

var (
	drawnMu sync.Mutex
	drawnBy = map[drawKey]*tokenDraws{}
)

// mostDrawn limits the routings that are kept: what a file asks for must not fill the memory.
const mostDrawn = 64

func drawnOf(key drawKey) *tokenDraws {
	drawnMu.Lock()
	defer drawnMu.Unlock()
	d := drawnBy[key]
	if d == nil {
		if len(drawnBy) >= mostDrawn {
			clear(drawnBy)
		}
		d = &tokenDraws{key: key, seen: make([]bool, key.groups)}
		for i := range key.groups {
			// Rounded, so that all machines draw alike although their exponentials differ in the last bit.
			weight := math.Pow(float64(i+1), -float64(key.skew)/100) * (1 << 32)
			d.weights = append(d.weights, uint64(max(1, math.Round(weight))))
		}
		drawnBy[key] = d
	}
	return d
}

// extend draws whole tokens until there are m rows.
func (d *tokenDraws) extend(m int) {
	var total uint64
	for _, w := range d.weights {
		total += w
	}
	left := slices.Clone(d.weights)
	for len(d.groups) < m {
		token := len(d.groups) / d.key.topK
		rng := rand.New(rand.NewPCG(uint64(d.key.seed), uint64(token)))
		rest := total
		from := len(d.groups)
		for range d.key.topK {
			at := rng.Uint64N(rest)
			i := 0
			for ; at >= left[i]; i++ {
				at -= left[i]
			}
			if !d.seen[i] {
				d.seen[i] = true
				d.firsts = append(d.firsts, len(d.groups))
			}
			d.groups = append(d.groups, uint16(i))
			rest -= left[i]
			left[i] = 0
		}
		for _, i := range d.groups[from:] {
			left[i] = d.weights[i]
		}
	}
}

func (d *tokenDraws) rows(m int) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.extend(m)
	rows := make([]int, d.key.groups)
	for _, i := range d.groups[:m] {
		rows[i]++
	}
	return rows
}

func (d *tokenDraws) active(m int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.extend(m)
	n, _ := slices.BinarySearch(d.firsts, m)
	return n
}

// RecordedRouting is a table of the rows of each group for some M, as a program counted them.
type RecordedRouting struct {
	Groups int           `json:"groups"`
	Rows   map[int][]int `json:"rows"` // by M, their sum
}

var (
	recordedMu sync.Mutex
	recorded   = map[int]RecordedRouting{}
)

// Check names an M whose rows are not its sum or not of all groups.
func (r RecordedRouting) Check() error {
	if len(r.Rows) == 0 || r.Groups < 1 || r.Groups > MaxGroups {
		return fmt.Errorf("routing of %d groups for %d values of M: expected 1 to %d groups and a value of M",
			r.Groups, len(r.Rows), MaxGroups)
	}
	for _, m := range r.Ms() {
		rows, sum := r.Rows[m], 0
		for i, n := range rows {
			if n < 0 || n > m {
				return fmt.Errorf("routing of M %d: group %d has %d rows, expected 0 to M", m, i, n)
			}
			sum += n
		}
		if m < 1 || sum != m || len(rows) != r.Groups {
			return fmt.Errorf("routing of M %d: %d groups have %d rows in all, expected M rows in %d groups", m, len(rows), sum, r.Groups)
		}
	}
	return nil
}

// Register makes the table known to all operations and returns its hash, which stands for it in dimensions. The error is
// that of [RecordedRouting.Check].
func (r RecordedRouting) Register() (hash int, err error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	h := sha256.New()
	write := func(v int) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(v))
		h.Write(b[:])
	}
	write(r.Groups)
	for _, m := range r.Ms() {
		write(m)
		for _, n := range r.Rows[m] {
			write(n)
		}
	}
	// As short as run files want a dimension.
	hash = max(1, int(binary.BigEndian.Uint64(h.Sum(nil))>>(64-routingHashBits)))
	recordedMu.Lock()
	defer recordedMu.Unlock()
	recorded[hash] = r
	return hash, nil
}

const routingHashBits = 31

// Ms lists the table's M, ascending.
func (r RecordedRouting) Ms() []int {
	var ms []int
	for m := range r.Rows {
		ms = append(ms, m)
	}
	slices.Sort(ms)
	return ms
}

// RoutingOf returns a registered table by its hash.
func RoutingOf(hash int) (RecordedRouting, bool) {
	recordedMu.Lock()
	defer recordedMu.Unlock()
	r, ok := recorded[hash]
	return r, ok
}

func recordedRows(hash, groups, m int) ([]int, error) {
	r, ok := RoutingOf(hash)
	switch {
	case !ok:
		return nil, fmt.Errorf("the recorded routing %d is not loaded", hash)
	case r.Groups != groups:
		return nil, fmt.Errorf("the recorded routing %d has %d groups, expected %d", hash, r.Groups, groups)
	case r.Rows[m] == nil:
		return nil, fmt.Errorf("the recorded routing %d has no M %d", hash, m)
	}
	return slices.Clone(r.Rows[m]), nil
}
