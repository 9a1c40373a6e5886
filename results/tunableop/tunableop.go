// Package tunableop reads and writes the files of PyTorch's TunableOp: the products of a workload that it
// recorded (tunableop_untuned*.csv, with PYTORCH_TUNABLEOP_RECORD_UNTUNED=1), and the algorithms of cuBLASLt that it
// is to run them by (tunableop_results*.csv, from PyTorch 2.14 on with an NVIDIA GPU):
//
//	Validator,PT_VERSION,2.15.0
//	GemmTunableOp_BFloat16_TN,tn_4096_1040_14336_ld_14336_14336_4096,Gemm_Cublaslt_id_66_tile_20_stages_36_splitk_1_red_0_swizzle_0_custom_0_inner_0_cluster_3,0.1
//
// PyTorch's sizes are column-major, so that its m is our N and its n our M. "t" in front says that the weights are
// stored as [N,K], which is layout nk, and "n" that they are [K,N].
package tunableop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/table"
)

// Limits of a file: far above what PyTorch writes.
const (
	maxLine  = 64 << 10
	maxLines = 1 << 20
)

// Library is the library whose algorithms a file names.
const Library = "cublaslt"

// algorithmFormat is how PyTorch spells an algorithm of it.
const algorithmFormat = "Gemm_Cublaslt_id_%d_tile_%d_stages_%d_splitk_%d_red_%d_swizzle_%d_custom_%d_inner_%d_cluster_%d"

// versionKey names the validator of PyTorch's version.
const versionKey = "PT_VERSION"

// dtypes are the types of operators, as tables name them.
var dtypes = map[string]string{"BFloat16": "bf16", "Half": "fp16", "float": "fp32", "tf32": "tf32"}

// Entry is a line that is no validator.
type Entry struct {
	Line int    // from 1
	Text string // as it stands, without its end
	// Product is what it computes; Kernel is empty, since the file names none.
	Product table.Product
	M       int
	// Bias says that a bias is added.
	Bias bool
	// Solution is what runs it; empty where nothing was tuned.
	Solution string
	// Algorithm is that of the solution; zero where it is none of cuBLASLt's.
	Algorithm table.Attributes
	// Milliseconds are what PyTorch measured, 0 where it did not.
	Milliseconds float64
	// Other says why the line is no product that a table has; Product and M are zero then.
	Other string
}

// File is a file of either kind.
type File struct {
	// Validators are name and value, in their order.
	Validators [][2]string
	Entries    []Entry
}

// Version is PyTorch's, which wrote the file or is to read it; empty where the file does not tell.
func (f *File) Version() string {
	for _, v := range f.Validators {
		if v[0] == versionKey {
			return v[1]
		}
	}
	return ""
}

// LineError is what is wrong with a line of a file.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Read reads a file of either kind. What is no line of TunableOp's is a [*LineError]; other errors are those of in. A
// byte order mark, which editors put in front, is passed over.
func Read(in io.Reader) (*File, error) {
	f := &File{}
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	line := 0
	for s.Scan() {
		line++
		text := strings.TrimSuffix(s.Text(), "\r")
		if line == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		switch fields := strings.Split(text, ","); {
		case line > maxLines:
			return nil, &LineError{line, fmt.Sprintf("expected at most %d lines", maxLines)}
		case strings.TrimSpace(text) == "":
		case fields[0] == "Validator":
			if len(fields) < 3 {
				return nil, &LineError{line, fmt.Sprintf("%.80q, expected Validator,NAME,VALUE", text)}
			}
			f.Validators = append(f.Validators, [2]string{fields[1], strings.Join(fields[2:], ",")})
		default:
			e, err := readEntry(fields)
			if err != nil {
				return nil, &LineError{line, err.Error()}
			}
			e.Line, e.Text = line, text
			f.Entries = append(f.Entries, e)
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return nil, &LineError{line + 1, fmt.Sprintf("more than %d bytes", maxLine)}
	}
	return f, s.Err()
}

// ReadEntry reads a line that is no validator, without its end. The entry has no number of the line and no text.
func ReadEntry(line string) (Entry, error) { return readEntry(strings.Split(line, ",")) }

// readEntry reads OPERATOR,PARAMETERS[,SOLUTION[,MILLISECONDS]].
func readEntry(fields []string) (Entry, error) {
	var e Entry
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "Gemm") && !strings.HasPrefix(fields[0], "ScaledGemm") {
		return e, fmt.Errorf("%.80q, expected an operator of TunableOp's, as GemmTunableOp_BFloat16_TN, and its parameters", strings.Join(fields, ","))
	}
	if err := e.product(fields[0], fields[1]); err != nil {
		return e, err
	}
	if len(fields) < 3 || strings.HasPrefix(fields[2], "- {") { // which is a log of the call
		return e, nil
	}
	e.Solution = fields[2]
	e.Algorithm, _ = ParseAlgorithm(e.Solution)
	if len(fields) > 3 {
		ms, err := strconv.ParseFloat(fields[3], 64)
		if err != nil || !(ms >= 0) || math.IsInf(ms, 0) {
			return e, fmt.Errorf("time %.40q, expected milliseconds", fields[3])
		}
		e.Milliseconds = ms
	}
	return e, nil
}

// product reads the operator and its parameters.
func (e *Entry) product(operator, parameters string) error {
	words := strings.Split(operator, "_")
	other := func(why string) error {
		e.Other = why
		return nil
	}
	switch words[0] {
	case "GemmTunableOp":
	case "GemmAndBiasTunableOp":
		e.Bias = true
	default:
		return other("it is no plain product")
	}
	dtype := dtypes[strings.Join(words[1:max(1, len(words)-1)], "_")]
	if dtype == "" {
		return other("its type is not measured")
	}
	sizes, err := readSizes(parameters)
	switch {
	case err != nil:
		return fmt.Errorf("parameters %.80q: %w", parameters, err)
	case sizes.wildcard:
		return other("it stands for any size")
	case sizes.rest != "":
		return other("it is computed in another way")
	case !strings.EqualFold(sizes.transposed, words[len(words)-1]):
		return fmt.Errorf("parameters %.80q of operator %.60q, expected to begin alike", parameters, operator)
	}
	p := table.Product{DType: dtype, Layout: table.NK, N: sizes.m, K: sizes.k}
	lda := sizes.k
	if sizes.transposed[0] == 'n' {
		p.Layout, lda = table.KN, sizes.m
	}
	switch {
	case sizes.transposed[1] != 'n':
		return other("its rows are transposed")
	case [3]int{lda, sizes.k, sizes.m} != sizes.strides:
		return other("there is room between its rows")
	}
	e.Product, e.M = p, sizes.n
	return nil
}

// sizes are the parameters of an operator, column-major.
type sizes struct {
	transposed string // "tn"
	m, n, k    int
	strides    [3]int
	wildcard   bool
	rest       string // behind what is known
}

// readSizes reads tn_4096_1040_14336_ld_14336_14336_4096.
func readSizes(s string) (sizes, error) {
	var out sizes
	words := strings.Split(s, "_")
	if len(words) < 8 || words[4] != "ld" {
		return out, errors.New("expected TRANSPOSED_m_n_k_ld_lda_ldb_ldc")
	}
	if out.transposed = words[0]; len(words[0]) != 2 || strings.Trim(words[0], "nt") != "" {
		return out, fmt.Errorf("%.20q, expected two of n and t", words[0])
	}
	out.rest = strings.Join(words[8:], "_")
	for i, to := range []*int{&out.m, &out.n, &out.k, nil, &out.strides[0], &out.strides[1], &out.strides[2]} {
		word := words[1+i]
		if to == nil {
			continue
		}
		if word == "*" {
			out.wildcard = true
			continue
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > math.MaxInt32 {
			return out, fmt.Errorf("size %.20q, expected 1 to %d", word, math.MaxInt32)
		}
		*to = n
	}
	return out, nil
}

// ParseAlgorithm reads the name of a solution; ok is false where it is none of cuBLASLt's.
func ParseAlgorithm(solution string) (a table.Attributes, ok bool) {
	n, err := fmt.Sscanf(solution, algorithmFormat, &a.ID, &a.Tile, &a.Stages, &a.SplitK, &a.Reduction, &a.Swizzle, &a.Custom, &a.Inner, &a.Cluster)
	if n != 9 || err != nil || AlgorithmName(a) != solution || !inRange(a) {
		return table.Attributes{}, false
	}
	return a, true
}

// inRange says whether each attribute is a number that the library's type of it holds, and one is not zero.
func inRange(a table.Attributes) bool {
	least := min(a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster)
	most := max(a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster)
	return least >= 0 && most <= math.MaxUint16 && a != (table.Attributes{})
}

// AlgorithmName spells an algorithm as PyTorch does.
func AlgorithmName(a table.Attributes) string {
	return fmt.Sprintf(algorithmFormat, a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster)
}
