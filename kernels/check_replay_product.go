package kernels

// gemmReplay is a product's [replayCase], with normal operands. Set 0 is that of [CheckAccuracy].
type gemmReplay struct {
	*GemmCheck
	sets map[int]*gemmKind
	refs map[operandSets][]gemmReference
	run  *checkRun // of the kernel that is checked
}

// replays returns the case of recorded launches on a kernel. Kernels share its operands and references.
func (c *GemmCheck) replays(d Device, k Kernel) *gemmReplay {
	if c.replay == nil {
		c.replay = &gemmReplay{GemmCheck: c, sets: map[int]*gemmKind{}, refs: map[operandSets][]gemmReference{}}
	}
	g := *c.replay
	g.run = &checkRun{GemmCheck: c, device: d, kernel: k, check: CheckReplay}
	return &g
}

func (g *gemmReplay) set(set int) (*gemmKind, error) {
	if k := g.sets[set]; k != nil {
		return k, nil
	}
	k, err := g.draw(CheckAccuracy, seedOf(g.seed, set))
	if err == nil {
		g.sets[set] = k
	}
	return k, err
}

func (g *gemmReplay) content(set int) (in, stored []byte, err error) {
	k, err := g.set(set)
	if err != nil {
		return nil, nil, err
	}
	return k.hostA, k.hostB, nil
}

func (g *gemmReplay) names() (in, stored string) { return "A", "B" }

func (g *gemmReplay) output() (blank []byte, d DType) { return g.blank, g.p.DType.Output() }

func (g *gemmReplay) starts() (in, out int) {
	return guardRows(g.p.LDA) * g.p.LDA, g.GemmCheck.output().first()
}

func (g *gemmReplay) outside(got []byte) int {
	lies, line := g.GemmCheck.output(), g.p.LDC*g.p.DType.Output().Size()
	for at := 0; at < len(got); at += line {
		inside := 0
		if _, i := lies.at(at / line); i >= 0 && i < g.p.M {
			inside = g.p.N * g.p.DType.Output().Size()
		}
		if d := firstDifference(got[at+inside:at+line], g.blank[at+inside:at+line]); d >= 0 {
			return at + inside + d
		}
	}
	return -1
}

// pair returns the operands of product i, A of one set and B of another.
func (g *gemmReplay) pair(of operandSets, i int) (*gemmKind, checkOperands, error) {
	a, err := g.set(of.in)
	if err != nil {
		return nil, checkOperands{}, err
	}
	b, err := g.set(of.stored)
	if err != nil {
		return nil, checkOperands{}, err
	}
	return a, checkOperands{a.operands[i].a, b.operands[i].b}, nil
}

func (g *gemmReplay) references(of operandSets) ([]gemmReference, error) {
	if refs := g.refs[of]; refs != nil {
		return refs, nil
	}
	if of == (operandSets{}) {
		k, err := g.kind(CheckAccuracy)
		if err != nil {
			return nil, err
		}
		g.refs[of] = k.references(g.p)
		return g.refs[of], nil
	}
	var refs []gemmReference
	for i := range g.batch.Products {
		k, o, err := g.pair(of, i)
		if err != nil {
			return nil, err
		}
		refs = append(refs, k.reference(g.p, o))
	}
	g.refs[of] = refs
	return refs, nil
}

func (g *gemmReplay) wrong(of operandSets, got []byte) (wrong []int, err error) {
	refs, err := g.references(of)
	if err != nil {
		return nil, err
	}
	out, lies := g.p.DType.Output(), g.GemmCheck.output()
	row := make([]float64, g.p.N)
	for product, ref := range refs {
		for i := range g.p.M {
			at := lies.row(product, i) * g.p.LDC * out.Size()
			if err := Decode(out, got[at:at+g.p.N*out.Size()], row); err != nil {
				return nil, err
			}
			for j, v := range row {
				if !ref.takes(out, i*g.p.N+j, v) {
					wrong = append(wrong, at+j*out.Size())
				}
			}
		}
	}
	return wrong, nil
}

// element returns the reference of one element of the output.
func (g *gemmReplay) element(of operandSets, at int) (gemmReference, error) {
	e := g.run.element(CheckReplay, at)
	k, o, err := g.pair(of, e.Product)
	if err != nil {
		return gemmReference{}, err
	}
	p := g.p
	row, column := o.a[e.Row*p.K:][:p.K], make([]float64, p.K)
	for l := range column {
		column[l] = o.b[l*p.N+e.Col]
	}
	p.M, p.N = 1, 1
	return k.reference(p, checkOperands{row, column}), nil
}

func (g *gemmReplay) fits(of operandSets, got []byte, at []int) (bool, error) {
	out := g.p.DType.Output()
	for _, at := range at {
		ref, err := g.element(of, at)
		if err != nil || !ref.takes(out, 0, valueAt(out, got, at)) {
			return false, err
		}
	}
	return true, nil
}

func (g *gemmReplay) failure(of operandSets, got []byte, at, wrong int, detail string) error {
	e := g.run.element(CheckReplay, at)
	out := g.p.DType.Output()
	e.Got, e.Wrong, e.Detail = valueAt(out, got, at), wrong, detail
	if e.Row < 0 || e.Row >= g.p.M || e.Col >= g.p.N {
		e.Check = CheckPadding
		return e
	}
	ref, err := g.element(of, at)
	if err != nil {
		return err
	}
	if e.Want = ref.want[0]; ref.bound != nil {
		e.Bound = ref.bound[0]
	}
	return e
}
