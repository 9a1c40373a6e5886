package advice

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Measured are timed whole passes, ascending in M.
type Measured []Time

const (
	// The fit has three coefficients, and must also estimate its scatter.
	leastMeasured = 8
	// factorSpread is the prior standard deviation of the parts' factor from 1, and of its change up to the
	// largest size. The factor sets the weight of steps and slow sizes. At its power limit an engine's clock
	// rises where a kernel wastes cycles, so slow sizes lose less: in one measurement 5.3 % instead of 8.5 %
	// of the time.
	factorSpread = 0.25
	mostBends    = 8
	// huber is the residual, in standard deviations, above which the weight falls; huberSquare is the
	// weighted mean square of normal residuals.
	huber       = 1.5
	huberSquare = 0.8664
	// residualFloor is the smallest accepted scatter, as a share of the time.
	residualFloor = 0.0005
)

// In units of the residuals' variance, from free to no bends.
var penalties = []float64{1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1e3, 1e4, 1e8}

// Rest is the time of passes beyond their parts.
type Rest struct {
	// Fitted is the number of measured passes in the fit, from FromM to ToM.
	Fitted int `json:"fitted"`
	FromM  int `json:"from_m"`
	ToM    int `json:"to_m"`
	// Unmatched lists measured sizes with unknown parts.
	Unmatched []int `json:"unmatched,omitempty"`
	// Ratio is the median ratio of measured passes to their parts.
	Ratio float64 `json:"measured_to_parts"`
	// Outside lists sizes with known parts outside of FromM to ToM, which are not predicted.
	Outside []int `json:"outside,omitempty"`
	// FactorFrom and FactorTo are the parts' factors at both ends. Scatter is the standard deviation of the
	// residuals as a share of the time, including errors of parts and measurements.
	FactorFrom float64 `json:"factor_from"`
	FactorTo   float64 `json:"factor_to"`
	Scatter    float64 `json:"scatter"`
	// Faster is true if a pass is faster than its parts alone at some size.
	Faster bool `json:"faster_than_parts,omitempty"`
}

// AddRest fits a rest to measured passes and adds it. It removes sizes outside of the measured ones from p.
func (p *Passes) AddRest(measured Measured) (*Rest, error) {
	r := &Rest{}
	var at []int
	var of []Time
	for _, t := range measured {
		i, ok := slices.BinarySearch(p.ms, t.M)
		if !ok {
			r.Unmatched = append(r.Unmatched, t.M)
			continue
		}
		at, of = append(at, i), append(of, t)
	}
	if len(of) < leastMeasured {
		return nil, fmt.Errorf("%[2]d of the %[1]d measured passes have sizes at which all parts are known, expected at least %[3]d",
			len(measured), len(of), leastMeasured)
	}
	r.Ratio = p.ratio(at, of)
	r.Fitted, r.FromM, r.ToM = len(of), of[0].M, of[len(of)-1].M
	for _, m := range p.ms {
		if m < r.FromM || m > r.ToM {
			r.Outside = append(r.Outside, m)
		}
	}
	f := newFit(p, at, of)
	f.choose()
	r.FactorFrom, r.FactorTo, r.Scatter = f.factor(at[0]), f.factor(at[len(at)-1]), f.scatter
	p.apply(f, r)
	return r, nil
}

func (p *Passes) ratio(at []int, of []Time) float64 {
	ratios := make([]float64, len(of))
	for k, t := range of {
		ratios[k] = t.Seconds / p.parts[at[k]]
	}
	slices.Sort(ratios)
	return stat.Quantile(0.5, stat.Empirical, ratios, nil)
}

// fit is a penalized least-squares fit of measured ÷ measured = 1.
type fit struct {
	passes               *Passes
	bends                []float64 // in M ÷ top
	top                  float64
	x                    *mat.Dense // a row for each measured pass, divided by its time
	y                    []float64  // 1 − parts ÷ measured
	weight               []float64  // Huber's
	noise                float64    // mean variance of parts and measurements, as shares
	penalty, scatter, df float64
	coefficients         []float64
	covariance           *mat.SymDense
}

// The first columns are the parts, the parts × M ÷ top, 1, M and M².
const (
	factorColumns = 2
	fixedColumns  = 5
)

func newFit(p *Passes, at []int, of []Time) *fit {
	f := &fit{passes: p, top: float64(of[len(of)-1].M)}
	bends := min(mostBends, len(of)/4)
	for k := range bends {
		f.bends = append(f.bends, float64(of[(k+1)*(len(of)-1)/(bends+1)].M)/f.top)
	}
	f.bends = slices.Compact(f.bends)
	n, columns := len(of), fixedColumns+len(f.bends)
	f.x, f.y, f.weight = mat.NewDense(n, columns, nil), make([]float64, n), make([]float64, n)
	for k, t := range of {
		i := at[k]
		row := f.row(i)
		for c, v := range row {
			f.x.Set(k, c, v/t.Seconds)
		}
		f.y[k] = 1 - p.parts[i]/t.Seconds
		f.weight[k] = 1
		f.noise += (t.SE*t.SE + p.own[i]/(t.Seconds*t.Seconds)) / float64(n)
	}
	return f
}

func (f *fit) row(i int) []float64 {
	p := f.passes
	scale := p.parts[len(p.parts)-1] // seconds of the largest pass: coefficients are shares of it
	u := float64(p.ms[i]) / f.top
	row := []float64{p.parts[i], p.parts[i] * u, scale, scale * u, scale * u * u}
	for _, b := range f.bends {
		row = append(row, scale*math.Max(0, u-b))
	}
	return row
}

func (f *fit) choose() {
	best, chosen := math.Inf(1), penalties[len(penalties)-1]
	for _, penalty := range penalties {
		if score := f.solve(penalty); score < best*(1-1e-6) {
			best, chosen = score, penalty
		}
	}
	f.solve(chosen)
}

// solve returns the mean square, by Huber, of the leave-one-out errors.
func (f *fit) solve(penalty float64) float64 {
	n, columns := f.x.Dims()
	f.penalty = penalty
	for k := range f.weight {
		f.weight[k] = 1
	}
	sigma := 0.01
	residuals, leverage := make([]float64, n), make([]float64, n)
	var inverse mat.Dense
	for range 12 {
		normal := mat.NewSymDense(columns, nil)
		right := mat.NewVecDense(columns, nil)
		for k := range n {
			row := f.x.RawRowView(k)
			for a := range columns {
				right.SetVec(a, right.AtVec(a)+f.weight[k]*row[a]*f.y[k])
				for b := a; b < columns; b++ {
					normal.SetSym(a, b, normal.At(a, b)+f.weight[k]*row[a]*row[b])
				}
			}
		}
		for c := range columns {
			v := normal.At(c, c)
			switch {
			case c < factorColumns:
				v += sigma * sigma / (factorSpread * factorSpread)
			case c >= fixedColumns:
				v += penalty
			default:
				v += 1e-10 * (1 + v) // collinear columns do not affect the sum
			}
			normal.SetSym(c, c, v)
		}
		if err := inverse.Inverse(normal); err != nil && !finiteMatrix(&inverse) {
			return math.Inf(1)
		}
		var beta mat.VecDense
		beta.MulVec(&inverse, right)
		f.coefficients = slices.Clone(beta.RawVector().Data)
		edf := 0.0
		for k := range n {
			row := f.x.RawRowView(k)
			residuals[k] = f.y[k] - dot(row, f.coefficients)
			leverage[k] = f.weight[k] * quadratic(&inverse, row)
			edf += leverage[k]
		}
		f.df = math.Max(1, float64(n)-edf)
		sum := 0.0
		for k, r := range residuals {
			sum += f.weight[k] * r * r
		}
		next := math.Max(residualFloor, math.Sqrt(sum/(huberSquare*f.df)))
		for k, r := range residuals {
			f.weight[k] = math.Min(1, huber*next/math.Max(math.Abs(r), 1e-15))
		}
		done := math.Abs(next-sigma) < 1e-6*sigma
		if sigma = next; done {
			break
		}
	}
	f.scatter = sigma
	f.covariance = mat.NewSymDense(columns, nil)
	for a := range columns {
		for b := a; b < columns; b++ {
			f.covariance.SetSym(a, b, sigma*sigma*(inverse.At(a, b)+inverse.At(b, a))/2)
		}
	}
	score, bound := 0.0, 3*sigma
	for k, r := range residuals {
		out := math.Abs(r) / math.Max(1e-3, 1-leverage[k])
		if out > bound {
			out = math.Sqrt(bound * (2*out - bound)) // Huber's loss
		}
		score += out * out
	}
	return score / float64(n)
}

func finiteMatrix(m *mat.Dense) bool {
	rows, columns := m.Dims()
	if rows == 0 {
		return false
	}
	for a := range rows {
		for b := range columns {
			if v := m.At(a, b); math.IsNaN(v) || math.IsInf(v, 0) {
				return false
			}
		}
	}
	return true
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func quadratic(m mat.Matrix, x []float64) float64 {
	sum := 0.0
	for a, v := range x {
		for b, w := range x {
			sum += v * m.At(a, b) * w
		}
	}
	return sum
}

func (p *Passes) apply(f *fit, r *Rest) {
	from, _ := slices.BinarySearch(p.ms, r.FromM)
	to, _ := slices.BinarySearch(p.ms, r.ToM)
	var eigen mat.EigenSym
	columns := len(f.coefficients)
	var vectors mat.Dense
	var values []float64
	if eigen.Factorize(f.covariance, true) {
		values = eigen.Values(nil)
		eigen.VectorsTo(&vectors)
	}
	// Scatter beyond the errors of parts and measurements is independent per size.
	lump := math.Max(residualFloor*residualFloor, f.scatter*f.scatter-f.noise)
	shares := make([][]float64, columns)
	for k := range shares {
		shares[k] = make([]float64, len(p.ms))
	}
	for i := from; i <= to; i++ {
		row := f.row(i)
		p.seconds[i] += dot(row, f.coefficients)
		r.Faster = r.Faster || p.seconds[i] < p.parts[i]
		var e spread
		e.add(lump*p.seconds[i]*p.seconds[i], f.df)
		e.add(f.factor(i)*f.factor(i)*p.own[i], p.df[i])
		p.own[i] = e.variance
		_, p.df[i] = e.deviation()
		for k, value := range values {
			if value <= 0 {
				continue
			}
			sum := 0.0
			for c := range columns {
				sum += row[c] * vectors.At(c, k)
			}
			shares[k][i] = math.Sqrt(value) * sum
		}
	}
	for _, s := range shares {
		p.share(s, f.df)
	}
	p.keep(from, to+1)
}

func (f *fit) factor(i int) float64 {
	return 1 + f.coefficients[0] + f.coefficients[1]*float64(f.passes.ms[i])/f.top
}
