package reach

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/jsonlines"
)

// Format is the version of the files.
const Format = 1

// Header is the first line of a file: where and how its samples were taken.
type Header struct {
	Format   int               `json:"format"`
	Card     string            `json:"card"` // the driver's name for it
	Date     string            `json:"date"` // "2026-11-21"
	Seed     uint64            `json:"seed"`
	Seconds  float64           `json:"seconds"`  // the time limit of the run
	Share    float64           `json:"share"`    // of the products
	Printed  float64           `json:"printed"`  // the share of informational series
	LeftOut  int               `json:"left_out"` // shapes that did not fit in memory
	Versions map[string]string `json:"versions"`
}

// Sample is one block of launches: microseconds per launch, SM clock in MHz (0 if unknown), and round.
type Sample struct {
	US    float64
	MHz   float64
	Round int
}

// MarshalJSON writes a sample as three numbers.
func (s Sample) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%.4f,%.1f,%d]", s.US, s.MHz, s.Round), nil
}

// UnmarshalJSON reads the three numbers.
func (s *Sample) UnmarshalJSON(text []byte) error {
	var three []float64
	if err := json.Unmarshal(text, &three); err != nil {
		return err
	}
	if len(three) != 3 {
		return fmt.Errorf("a sample has %d numbers, expected 3", len(three))
	}
	*s = Sample{three[0], three[1], int(three[2])}
	return nil
}

// Row is each further line: all samples of a series of a product.
type Row struct {
	Product
	Series   Series   `json:"series"`
	Label    string   `json:"label"`    // the launched kernel
	Launches int      `json:"launches"` // in a sample
	Samples  []Sample `json:"samples"`
}

func (r Row) validate() error {
	if r.M < 1 || r.N < 1 || r.K < 1 || r.Series == "" || r.Set == "" {
		return fmt.Errorf("%v %q %q: m, n, k, set or series is missing", r.Product, r.Set, r.Series)
	}
	for _, s := range r.Samples {
		if !(s.US > 0) || math.IsInf(s.US, 0) || !(s.MHz >= 0) {
			return fmt.Errorf("%v %s: a sample of %v us at %v MHz", r.Product, r.Series, s.US, s.MHz)
		}
	}
	return nil
}

// Write writes a file.
func Write(w io.Writer, h Header, rows []Row) error {
	h.Format = Format
	b := bufio.NewWriter(w)
	to := json.NewEncoder(b)
	if err := to.Encode(h); err != nil {
		return err
	}
	for _, r := range rows {
		if err := to.Encode(r); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Read reads a file and checks it; the error names the line.
func Read(r io.Reader) (h Header, rows []Row, err error) {
	return jsonlines.Read(r, 1<<22, "a header and at least one row", func(h Header) error {
		if h.Format != Format {
			return fmt.Errorf("format %d, expected %d", h.Format, Format)
		}
		return nil
	}, Row.validate)
}
