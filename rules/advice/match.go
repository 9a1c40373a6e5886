package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Run is what is known of one run.
type Run struct {
	Name  string
	Times []rules.SeriesTimes
	// Cards are the names of its devices by their ids.
	Cards map[string]string
}

// Product is a matrix product of a model.
type Product struct {
	Name string
	N, K int
	// Count is how often a pass has it.
	Count int
}

// Need is what a pass of a model consists of.
type Need struct {
	Model string
	// Layers are sets of products of all layers, each of them whole; the first one that runs know is
	// taken.
	Layers [][]Product
	// Head is the product with the vocabulary, and Heads the attention's, which a pass has Count times:
	// they are taken where they are known.
	Head  Product
	Heads kernels.Heads
	Count int // of attention
	// Vocab is the columns of the softmax over the vocabulary, taken where it is known.
	Vocab int
	// Sequences is how many rows run through what only last rows need: the rows of Head and of the
	// softmax. 0 stands for all rows.
	Sequences int
	// Kernel and DType choose among series; empty for any, if there is one.
	Kernel string
	DType  kernels.DType
}

// Match is what runs know of a pass.
type Match struct {
	Parts []Part
	// Missing are the operations with weights or over tokens that are in none.
	Missing  []string
	Series   results.SeriesKey // of the first product
	Card     string
	ClockMHz float64
}

// variant is what the products of a pass have in common.
type variant struct {
	device, kernel string
	dtype          kernels.DType
	weights        kernels.WeightFormat
	regime         results.Regime
	threads        int
	packInside     bool
}

func variantOf(k results.SeriesKey) variant {
	return variant{k.Device, k.Kernel, k.DType, k.Weights, k.Regime, k.Threads, k.PackInside}
}

// String names a variant so that it can be told from others.
func (v variant) String() string {
	s := v.kernel + " in " + string(v.dtype)
	if v.weights != (kernels.WeightFormat{}) {
		s += " with " + v.weights.String()
	}
	if v.regime != "" && v.regime != results.Engine {
		s += " " + string(v.regime)
	}
	if v.threads > 0 {
		s += fmt.Sprintf(" on %d threads", v.threads)
	}
	if v.packInside {
		s += " packing inside"
	}
	return s
}

// shape is the size of a product's weights.
type shape struct{ n, k int }

// Find picks the series of a pass from runs. An error says what is not there, or what is there more
// than once.
func Find(runs []Run, need Need) (*Match, error) {
	series, err := collect(runs)
	if err != nil {
		return nil, err
	}
	known, err := need.products(runs, series)
	if err != nil {
		return nil, err
	}
	v, layers, err := need.choose(runs, known)
	if err != nil {
		return nil, err
	}
	m := &Match{}
	of := known[v]
	for _, p := range layers {
		s := of[shape{p.N, p.K}]
		m.add(Part{Names: []string{p.Name}, Source: Swept, Series: s.Key, Count: p.Count, Times: times(s)})
		m.ClockMHz = cmp.Or(m.ClockMHz, s.ClockMHz)
	}
	m.Series = m.Parts[0].Series
	for _, r := range runs {
		m.Card = cmp.Or(m.Card, r.Cards[v.device])
	}
	if err := m.attention(series, need, v); err != nil {
		return nil, err
	}
	if s, ok := of[shape{need.Head.N, need.Head.K}]; !ok || !m.lastRows(s, need.Head.Name, need.Sequences) {
		m.Missing = append(m.Missing, need.Head.Name)
	}
	if key, ok := need.softmax(series, v); ok {
		m.lastRows(series[key], "softmax", need.Sequences)
	}
	return m, nil
}

// collect are the series of all runs; each may be in one of them.
func collect(runs []Run) (map[results.SeriesKey]rules.SeriesTimes, error) {
	out := map[results.SeriesKey]rules.SeriesTimes{}
	from := map[results.SeriesKey]string{}
	cards := map[string]string{}
	for _, r := range runs {
		for _, s := range r.Times {
			if first, twice := from[s.Key]; twice {
				return nil, fmt.Errorf("%s and %s both have %s: expected each series in one run, or the runs merged", first, r.Name, s.Key.Text())
			}
			if card, other := cards[s.Key.Device]; other && card != r.Cards[s.Key.Device] {
				return nil, fmt.Errorf("%s is %s in one run and %s in %s: expected runs of one device", s.Key.Device, card, r.Cards[s.Key.Device], r.Name)
			}
			cards[s.Key.Device] = r.Cards[s.Key.Device]
			from[s.Key], out[s.Key] = r.Name, s
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: there is no series in it", names(runs))
	}
	return out, nil
}

// products are the series of products of the model's shapes, with weights as engines store them, by
// what they have in common.
func (n Need) products(runs []Run, series map[results.SeriesKey]rules.SeriesTimes) (map[variant]map[shape]rules.SeriesTimes, error) {
	wanted := map[shape]bool{{n.Head.N, n.Head.K}: true}
	for _, set := range n.Layers {
		for _, p := range set {
			wanted[shape{p.N, p.K}] = true
		}
	}
	out := map[variant]map[shape]rules.SeriesTimes{}
	var devices []string
	other := 0 // series of [K,N]
	for key, s := range series {
		if key.Operation != kernels.GEMM || key.Products > 0 || !wanted[shape{key.N, key.K}] || len(s.Rows) == 0 ||
			n.Kernel != "" && key.Kernel != n.Kernel || n.DType != "" && key.DType != n.DType {
			continue
		}
		if key.Layout != kernels.Transposed {
			other++
			continue
		}
		if !slices.Contains(devices, key.Device) {
			devices = append(devices, key.Device)
		}
		v := variantOf(key)
		if out[v] == nil {
			out[v] = map[shape]rules.SeriesTimes{}
		}
		out[v][shape{key.N, key.K}] = s
	}
	slices.Sort(devices)
	switch {
	case len(devices) > 1:
		return nil, fmt.Errorf("%s: products of %s, expected those of one device", names(runs), strings.Join(devices, " and "))
	case len(out) == 0 && other > 0:
		return nil, fmt.Errorf("%s: the weights of %s are stored as [K,N] (layout kn), expected [N,K] (nk), as engines hold them", names(runs), n.Model)
	}
	return out, nil
}

// choose finds the one variant of which a set of the layers' products is whole.
func (n Need) choose(runs []Run, known map[variant]map[shape]rules.SeriesTimes) (variant, []Product, error) {
	var whole []variant
	var layers []Product
	fewest := n.Layers[0]
	for _, set := range n.Layers { // without any series the set with the fewest products is named
		if len(set) < len(fewest) {
			fewest = set
		}
	}
	for v, of := range known {
		found := false
		for _, set := range n.Layers {
			missing := slices.DeleteFunc(slices.Clone(set), func(p Product) bool { _, ok := of[shape{p.N, p.K}]; return ok })
			if len(missing) < len(fewest) {
				fewest = missing
			}
			if len(missing) == 0 && !found {
				whole, layers, found = append(whole, v), set, true
			}
		}
	}
	switch len(whole) {
	case 1:
		return whole[0], layers, nil
	case 0:
		var lacking []string
		for _, p := range fewest {
			lacking = append(lacking, fmt.Sprintf("%s (n%d k%d)", p.Name, p.N, p.K))
		}
		return variant{}, nil, fmt.Errorf("%s: %s missing: %s", names(runs), lacked(len(fewest), n.Model), strings.Join(lacking, ", "))
	}
	words := make([]string, len(whole))
	for i, v := range whole {
		words[i] = v.String()
	}
	slices.Sort(words)
	return variant{}, nil, fmt.Errorf("%s: the products of %s are there %d times, by %s: expected one of them", names(runs), n.Model, len(words), strings.Join(words, "; "))
}

// lacked says how many products are not there.
func lacked(n int, model string) string {
	if n == 1 {
		return "a product of " + model + " is"
	}
	return fmt.Sprintf("%d products of %s are", n, model)
}

// names lists runs.
func names(runs []Run) string {
	out := make([]string, len(runs))
	for i, r := range runs {
		out[i] = r.Name
	}
	return strings.Join(out, ", ")
}

// attention takes that of one prompt of M tokens; what several sequences take together is not swept.
func (m *Match) attention(series map[results.SeriesKey]rules.SeriesTimes, need Need, v variant) error {
	var found []results.SeriesKey
	for key, s := range series {
		heads := kernels.Heads{Query: key.QueryHeads, KV: key.KVHeads, Dim: key.HeadDim}
		if need.Sequences == 1 && key.Operation == kernels.AttentionPrefill && heads == need.Heads && key.Window == 0 && key.Device == v.device && key.DType == v.dtype && len(s.Rows) > 0 {
			found = append(found, key)
		}
	}
	if i := slices.IndexFunc(found, func(k results.SeriesKey) bool { return k.Kernel == v.kernel }); i >= 0 && len(found) > 1 {
		found = found[i : i+1]
	}
	switch len(found) {
	case 0:
		m.Missing = append(m.Missing, AttentionPart)
		return nil
	case 1:
		s := series[found[0]]
		m.add(Part{Names: []string{AttentionPart}, Source: Swept, Series: s.Key, Count: need.Count, Times: times(s)})
		return nil
	}
	var words []string
	for _, k := range found {
		words = append(words, k.Text())
	}
	slices.Sort(words)
	return fmt.Errorf("attention is there %d times: %s: expected one of them", len(words), strings.Join(words, "; "))
}

// AttentionPart is the name of the part that is attention.
const AttentionPart = "attention"

// softmax is the one over the vocabulary, where there is one, or one by the kernel of the products.
func (n Need) softmax(series map[results.SeriesKey]rules.SeriesTimes, v variant) (key results.SeriesKey, ok bool) {
	var all, own []results.SeriesKey
	for k, s := range series {
		if k.Operation == kernels.Softmax && k.Columns == n.Vocab && k.Queries == 0 && k.Device == v.device && len(s.Rows) > 0 {
			if all = append(all, k); k.Kernel == v.kernel && k.DType == v.dtype {
				own = append(own, k)
			}
		}
	}
	switch {
	case len(own) == 1:
		return own[0], true
	case len(all) == 1:
		return all[0], true
	}
	return key, false
}

// lastRows adds what runs on the last rows of sequences: at the smallest known M that they fit. False
// where none is known.
func (m *Match) lastRows(s rules.SeriesTimes, name string, sequences int) bool {
	part := Part{Names: []string{name}, Source: Swept, Series: s.Key, Count: 1, Times: times(s)}
	if sequences > 0 {
		i, _ := slices.BinarySearchFunc(part.Times, sequences, func(t Time, m int) int { return cmp.Compare(t.M, m) })
		if i == len(part.Times) {
			return false
		}
		part.FixedM, part.Times = part.Times[i].M, part.Times[i:i+1]
	}
	m.add(part)
	return true
}

// add adds a part, to that of the same series if there is one.
func (m *Match) add(p Part) {
	for i := range m.Parts {
		if have := &m.Parts[i]; have.Series == p.Series && have.FixedM == p.FixedM {
			have.Names, have.Count = append(have.Names, p.Names...), have.Count+p.Count
			return
		}
	}
	m.Parts = append(m.Parts, p)
}

// times are those of a series.
func times(s rules.SeriesTimes) []Time {
	out := make([]Time, len(s.Rows))
	for i, r := range s.Rows {
		out[i] = Time{M: r.M, Seconds: r.US / 1e6, SE: r.SE, DF: r.DF, Scatter: r.Scatter, Inferred: r.Inferred}
	}
	return out
}

// ImportPart makes a part of times from elsewhere, of the whole pass each. A time without bounds has an assumed error.
func ImportPart(name string, from []results.PassTime) Part {
	part := Part{Names: []string{name}, Source: Imported, Count: 1, Times: MeasuredTimes(from)}
	for i := range part.Times {
		if t := &part.Times[i]; t.Scatter == rules.AssumedScatter {
			t.SE, t.DF = rules.AssumedError()
		}
	}
	return part
}

// MeasuredTimes are times from elsewhere with their errors. One without bounds has none of its own: the scatter about a fit tells it.
func MeasuredTimes(from []results.PassTime) []Time {
	out := make([]Time, len(from))
	for i, t := range from {
		out[i] = Time{M: t.M, Seconds: t.Seconds * float64(t.Count), DF: normalDF}
		if out[i].Scatter = rules.AssumedScatter; t.High > t.Low {
			out[i].SE, out[i].Scatter = (t.High-t.Low)/t.Seconds/(2*half(normalDF)), rules.OwnScatter
		}
	}
	return out
}

// Replace puts a part in the place of those of its name, or adds it, and strikes it from what is
// missing.
func (m *Match) Replace(p Part) {
	m.Parts = slices.DeleteFunc(m.Parts, func(have Part) bool { return slices.Equal(have.Names, p.Names) })
	m.Parts = append(m.Parts, p)
	m.Missing = slices.DeleteFunc(m.Missing, func(name string) bool { return name == p.Names[0] })
}
