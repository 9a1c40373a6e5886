package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Run is the data of one run.
type Run struct {
	Name  string
	Times []infer.SeriesTimes
	// Cards gives the names of its devices by id.
	Cards map[string]string
}

// Product is a matrix product of a model, or the grouped product of its experts.
type Product struct {
	Name string
	N, K int
	// Count is the number of times per pass.
	Count int
	// Experts are the groups of a grouped product; each token has rows in Active of them. Both are 0 otherwise.
	Experts, Active int
	// Epilogue is what the layer does with the result, as far as an engine may fuse it; 0 for nothing.
	Epilogue kernels.Epilogue
	// Plain means that the checkpoint keeps these weights plain, and quantizes others.
	Plain bool
	// Beyond names what else the layer does, which no epilogue computes; empty for nothing.
	Beyond string
}

func (p Product) shape() shape { return shape{p.N, p.K, p.Experts} }

func (p Product) String() string {
	if p.Experts > 0 {
		return fmt.Sprintf("%s (n%d k%d g%d)", p.Name, p.N, p.K, p.Experts)
	}
	return fmt.Sprintf("%s (n%d k%d)", p.Name, p.N, p.K)
}

// Need describes the parts of a model's pass.
type Need struct {
	Model string
	// Layers are alternative sets of products that each cover all layers; the first one in the runs is used.
	Layers [][]Product
	// Head is the vocabulary projection. Heads is the attention, Count times per pass. Both are optional.
	Head  Product
	Heads kernels.Heads
	Count int // of attention
	// Vocab is the number of columns of the vocabulary softmax, which is optional.
	Vocab int
	// Sequences is the number of rows of Head and the softmax, which run only on last rows; 0 means all rows.
	Sequences int
	// Kernel and DType select series; empty matches any if it is unique. Experts is the kernel of experts, empty for that of
	// the other products.
	Kernel, Experts string
	DType           kernels.DType
}

// Match is the part of a pass that runs cover.
type Match struct {
	Parts []Part
	// Missing lists operations with weights or over tokens that no run has.
	Missing []string
	// Fused is true if every product was measured with its layer's own epilogue, and nothing is beyond them. In a pass of plain
	// products none was.
	Fused bool
	// Warnings name the products that were measured with another epilogue than their layer's, or without it next to others.
	Warnings []rules.Warning
	Series   results.SeriesKey // of the first product
	Card     string
	ClockMHz float64
}

type variant struct {
	device, kernel string
	dtype          kernels.DType
	weights        kernels.WeightFormat
	regime         results.Regime
	threads        int
	packInside     bool
}

// variantOf has the requested format of weights, which is the same for every K.
func variantOf(k results.SeriesKey) variant {
	weights, ok := k.Weights.Requested(k.K)
	if !ok {
		weights = k.Weights
	}
	return variant{k.Device, k.Kernel, k.DType, weights, k.Regime, k.Threads, k.PackInside}
}

// String describes a variant uniquely.
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
		s += " packing in the time"
	}
	return s
}

type shape struct{ n, k, experts int }

// Find picks the series of a pass from runs. The error names missing or duplicate products.
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
		s, err := p.from(of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", names(runs), err)
		}
		m.add(Part{Names: []string{p.Name}, Source: Swept, Series: s.Key, Count: p.Count, Times: p.tokens(times(s))})
		m.ClockMHz = cmp.Or(m.ClockMHz, s.ClockMHz)
	}
	m.Series = m.Parts[0].Series
	for _, r := range runs {
		m.Card = cmp.Or(m.Card, r.Cards[v.device])
	}
	if err := m.attention(series, need, v); err != nil {
		return nil, err
	}
	m.compareEpilogues(layers, of)
	head, err := need.Head.from(of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names(runs), err)
	}
	if len(head.Rows) == 0 || !m.lastRows(head, need.Head.Name, need.Sequences) {
		m.Missing = append(m.Missing, need.Head.Name)
	}
	if key, ok := need.softmax(series, v); ok {
		m.lastRows(series[key], "softmax", need.Sequences)
	}
	return m, nil
}

// A series in two runs is an error.
func collect(runs []Run) (map[results.SeriesKey]infer.SeriesTimes, error) {
	out := map[results.SeriesKey]infer.SeriesTimes{}
	from := map[results.SeriesKey]string{}
	cards := map[string]string{}
	for _, r := range runs {
		for _, s := range r.Times {
			if first, twice := from[s.Key]; twice {
				return nil,
					fmt.Errorf("%s and %s both have %s: expected each series in only one run; merge the runs", first, r.Name, s.Key.Text())
			}
			if card, other := cards[s.Key.Device]; other && card != r.Cards[s.Key.Device] {
				return nil, fmt.Errorf("%s is %s in one run and %s in %s: expected runs of one device", s.Key.Device, card,
					r.Cards[s.Key.Device], r.Name)
			}
			cards[s.Key.Device] = r.Cards[s.Key.Device]
			from[s.Key], out[s.Key] = r.Name, s
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: has no series", names(runs))
	}
	return out, nil
}

// kernelOf returns the name that the kernel of a series must have, or "".
func (n Need) kernelOf(key results.SeriesKey) string {
	if key.Groups > 0 {
		return cmp.Or(n.Experts, n.Kernel)
	}
	return n.Kernel
}

// products have the model's shapes and engine-like weights.
func (n Need) products(runs []Run, series map[results.SeriesKey]infer.SeriesTimes) (map[variant]map[shape]finishes, error) {
	wanted, plain := map[shape]bool{n.Head.shape(): true}, map[shape]bool{n.Head.shape(): n.Head.Plain}
	for _, set := range n.Layers {
		for _, p := range set {
			wanted[p.shape()] = true
			plain[p.shape()] = plain[p.shape()] || p.Plain
		}
	}
	out := map[variant]map[shape]finishes{}
	var devices []string
	other := 0 // series of [K,N]
	for key, s := range series {
		of := shape{key.N, key.K, key.Groups}
		if !key.Operation.IsProduct() && key.Groups == 0 && key.Epilogue == 0 || key.Products > 0 || !wanted[of] || len(s.Rows) == 0 ||
			n.DType != "" && key.DType != n.DType && !(plain[of] && !key.Quantized()) {
			continue
		}
		if named := n.kernelOf(key); named != "" && key.Kernel != named {
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
		if key.Groups > 0 && n.Experts != "" {
			v.kernel = n.Kernel
		}
		if out[v] == nil {
			out[v] = map[shape]finishes{}
		}
		if before, twice := out[v][of][key.Epilogue]; twice {
			if before.Key.Even() == key.Even() {
				a, b := before.Key.Size(), key.Size()
				return nil, fmt.Errorf("%s: the experts are routed as in %s and in %s: expected one of them", names(runs), min(a, b),
					max(a, b))
			}
			if key.Even() {
				continue // drawn rows are more like those of tokens
			}
		}
		if out[v][of] == nil {
			out[v][of] = finishes{}
		}
		out[v][of][key.Epilogue] = s
	}
	addPlain(out, plain)
	slices.Sort(devices)
	switch {
	case len(devices) > 1:
		return nil, fmt.Errorf("%s: products of %s, expected only one device", names(runs), strings.Join(devices, " and "))
	case len(out) == 0 && other > 0:
		return nil, fmt.Errorf("%s: the weights of %s are stored as [K,N] (layout kn), expected [N,K] (nk), as engines hold them",
			names(runs), n.Model)
	}
	return out, nil
}

// plainTypes are the types of weights that a checkpoint keeps plain, the most usual first.
var plainTypes = []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP32}

// addPlain adds the products that a checkpoint keeps plain to each variant of quantized weights without them.
func addPlain(known map[variant]map[shape]finishes, plain map[shape]bool) {
	for v, of := range known {
		if v.weights == (kernels.WeightFormat{}) && slices.Contains(plainTypes, v.dtype) {
			continue
		}
		v.weights = kernels.WeightFormat{}
		for _, v.dtype = range plainTypes {
			for shape, s := range known[v] {
				if plain[shape] && of[shape] == nil {
					of[shape] = s
				}
			}
		}
	}
}

func (n Need) choose(runs []Run, known map[variant]map[shape]finishes) (variant, []Product, error) {
	var whole []variant
	var layers []Product
	fewest := n.Layers[0]
	for _, set := range n.Layers { // without any series, report the set with the fewest products
		if len(set) < len(fewest) {
			fewest = set
		}
	}
	for v, of := range known {
		found := false
		for _, set := range n.Layers {
			missing := slices.DeleteFunc(slices.Clone(set), func(p Product) bool { _, ok := of[p.shape()]; return ok })
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
			lacking = append(lacking, p.String())
		}
		return variant{}, nil, fmt.Errorf("%s: %s missing: %s", names(runs), lacked(len(fewest), n.Model), strings.Join(lacking, ", "))
	}
	words := make([]string, len(whole))
	for i, v := range whole {
		words[i] = v.String()
	}
	slices.Sort(words)
	return variant{}, nil, fmt.Errorf("%s: the products of %s are in the runs %d times, from %s: expected only one", names(runs), n.Model,
		len(words), strings.Join(words, "; "))
}

func lacked(n int, model string) string {
	if n == 1 {
		return "a product of " + model + " is"
	}
	return fmt.Sprintf("%d products of %s are", n, model)
}

func names(runs []Run) string {
	out := make([]string, len(runs))
	for i, r := range runs {
		out[i] = r.Name
	}
	return strings.Join(out, ", ")
}

// attention adds the attention of one prompt; several together are not swept.
func (m *Match) attention(series map[results.SeriesKey]infer.SeriesTimes, need Need, v variant) error {
	var found []results.SeriesKey
	for key, s := range series {
		heads := kernels.Heads{Query: key.QueryHeads, KV: key.KVHeads, Dim: key.HeadDim}
		if need.Sequences == 1 && key.Operation.Computes(kernels.PromptAttention) && heads == need.Heads && key.Window == 0 &&
			key.Device == v.device && (key.DType == v.dtype || v.weights.Activations() != "") && len(s.Rows) > 0 {
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
	return fmt.Errorf("%d runs have attention: %s: expected only one", len(words), strings.Join(words, "; "))
}

// AttentionPart is the name of the attention part.
const AttentionPart = "attention"

// softmax returns the only vocabulary softmax, or the one with the products' kernel.
func (n Need) softmax(series map[results.SeriesKey]infer.SeriesTimes, v variant) (key results.SeriesKey, ok bool) {
	var all, own []results.SeriesKey
	for k, s := range series {
		vocabulary := k.Operation.Computes(kernels.Probabilities) && k.Columns == n.Vocab && k.Queries == 0
		if vocabulary && k.Device == v.device && len(s.Rows) > 0 {
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

// lastRows adds an operation on the last rows of sequences, at the smallest known M that fits. It returns
// false without one.
func (m *Match) lastRows(s infer.SeriesTimes, name string, sequences int) bool {
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

func (m *Match) add(p Part) {
	for i := range m.Parts {
		if have := &m.Parts[i]; have.Series == p.Series && have.FixedM == p.FixedM {
			have.Names, have.Count = append(have.Names, p.Names...), have.Count+p.Count
			return
		}
	}
	m.Parts = append(m.Parts, p)
}

// tokens returns the times of an operation over rows as times over tokens.
func (p Product) tokens(rows []Time) []Time {
	if p.Experts == 0 {
		return rows
	}
	var out []Time
	for _, t := range rows {
		if t.M%p.Active == 0 {
			t.M /= p.Active
			out = append(out, t)
		}
	}
	return out
}

func times(s infer.SeriesTimes) []Time {
	out := make([]Time, len(s.Rows))
	for i, r := range s.Rows {
		out[i] = Time{M: r.M, Seconds: r.US / 1e6, SE: r.SE, DF: r.DF, Scatter: r.Scatter, Inferred: r.Inferred}
	}
	return out
}

// ImportPart makes a part of imported times, each of a whole pass. A time without bounds has an assumed
// error.
func ImportPart(name string, from []importing.PassTime) Part {
	part := Part{Names: []string{name}, Source: Imported, Count: 1, Times: MeasuredTimes(from)}
	for i := range part.Times {
		if t := &part.Times[i]; t.Scatter == infer.AssumedScatter {
			t.SE, t.DF = infer.AssumedError()
		}
	}
	return part
}

// MeasuredTimes converts imported times with their errors. The scatter about a fit supplies the error of
// times without bounds.
func MeasuredTimes(from []importing.PassTime) []Time {
	out := make([]Time, len(from))
	for i, t := range from {
		out[i] = Time{M: t.M, Seconds: t.Seconds * float64(t.Count), DF: normalDF}
		if out[i].Scatter = infer.AssumedScatter; t.High > t.Low {
			out[i].SE, out[i].Scatter = (t.High-t.Low)/t.Seconds/(2*half(normalDF)), infer.OwnScatter
		}
	}
	return out
}

// Replace replaces the parts with p's names, or adds p, and removes the names from Missing.
func (m *Match) Replace(p Part) {
	m.Parts = slices.DeleteFunc(m.Parts, func(have Part) bool { return slices.Equal(have.Names, p.Names) })
	m.Parts = append(m.Parts, p)
	m.Missing = slices.DeleteFunc(m.Missing, func(name string) bool { return name == p.Names[0] })
}
