// Package tunableop reads and writes files of PyTorch's TunableOp: the recorded products of a workload
// (tunableop_untuned*.csv, with PYTORCH_TUNABLEOP_RECORD_UNTUNED=1), and the cuBLASLt algorithms to run them
// with (tunableop_results*.csv, from PyTorch 2.14 on with an NVIDIA GPU):
//
//	Validator,PT_VERSION,2.15.0
//	GemmTunableOp_BFloat16_TN,tn_4096_1040_14336_ld_14336_14336_4096,Gemm_Cublaslt_id_66_tile_20_..._cluster_3,0.1
//
// PyTorch's sizes are column-major: its m is our N and its n our M. A leading "t" means weights [N,K] (layout
// nk), "n" means [K,N].
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

// Limits of a file, far above PyTorch's files.
const (
	maxLine  = 64 << 10
	maxLines = 1 << 20
)

// Library is the library of the algorithms in a file.
const Library = "cublaslt"

// algorithmFormat is PyTorch's spelling of an algorithm.
const algorithmFormat = "Gemm_Cublaslt_id_%d_tile_%d_stages_%d_splitk_%d_red_%d_swizzle_%d_custom_%d_inner_%d_cluster_%d"

// versionKey is the name of PyTorch's version validator.
const versionKey = "PT_VERSION"

var dtypes = map[string]string{"BFloat16": "bf16", "Half": "fp16", "float": "fp32", "tf32": "tf32"}

// Entry is a line other than a validator.
type Entry struct {
	Text string // unchanged, without the line end
	// Product is the computed product; Kernel is empty, because files have none.
	Product table.Product
	M       int
	// Bias means that a bias is added.
	Bias bool
	// Solution is the selected implementation; empty if untuned.
	Solution string
	// Algorithm is the solution's algorithm; zero if it is not cuBLASLt's.
	Algorithm table.Attributes
	// Milliseconds is PyTorch's measurement, 0 if none.
	Milliseconds float64
	// Other says why tables can't have the product; Product and M are then zero.
	Other string
}

// File is a file of either kind.
type File struct {
	// Validators are names and values in order.
	Validators [][2]string
	Entries    []Entry
}

// LineError is an error in a line of a file.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Read reads a file of either kind. An invalid line is a [*LineError]; other errors are in's. A byte order
// mark is ignored.
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
			e.Text = text
			f.Entries = append(f.Entries, e)
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return nil, &LineError{line + 1, fmt.Sprintf("more than %d bytes", maxLine)}
	}
	return f, s.Err()
}

// ReadEntry reads a line other than a validator, without its end. The entry has no line number and no text.
func ReadEntry(line string) (Entry, error) { return readEntry(strings.Split(line, ",")) }

// readEntry reads OPERATOR,PARAMETERS[,SOLUTION[,MILLISECONDS]].
func readEntry(fields []string) (Entry, error) {
	var e Entry
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "Gemm") && !strings.HasPrefix(fields[0], "ScaledGemm") {
		return e, fmt.Errorf("%.80q, expected an operator of TunableOp's, as GemmTunableOp_BFloat16_TN, and its parameters",
			strings.Join(fields, ","))
	}
	if err := e.product(fields[0], fields[1]); err != nil {
		return e, err
	}
	if len(fields) < 3 || strings.HasPrefix(fields[2], "- {") { // a log of the call
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

type sizes struct {
	transposed string // "tn"
	m, n, k    int
	strides    [3]int
	wildcard   bool
	rest       string // the unknown rest
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

// ParseAlgorithm reads a solution's name; ok is false if it is not cuBLASLt's.
func ParseAlgorithm(solution string) (a table.Attributes, ok bool) {
	n, err := fmt.Sscanf(solution, algorithmFormat, &a.ID, &a.Tile, &a.Stages, &a.SplitK, &a.Reduction, &a.Swizzle, &a.Custom, &a.Inner,
		&a.Cluster)
	if n != 9 || err != nil || AlgorithmName(a) != solution || !inRange(a) {
		return table.Attributes{}, false
	}
	return a, true
}

// inRange reports whether each attribute fits the library's type and not all are zero.
func inRange(a table.Attributes) bool {
	least := min(a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster)
	most := max(a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster)
	return least >= 0 && most <= math.MaxUint16 && a != (table.Attributes{})
}

// AlgorithmName returns PyTorch's spelling of an algorithm.
func AlgorithmName(a table.Attributes) string {
	return fmt.Sprintf(algorithmFormat, a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster)
}
