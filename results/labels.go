package results

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Labels are a user's names for a machine or run: "rack" → "7". Keys consist of a to z, 0 to 9 and "_.-/",
// values are one line of text. nil is none.
type Labels map[string]string

// Limits of labels: a key and a value fit on a terminal line.
const (
	MostLabels     = 64  // of a run
	mostLabelKey   = 63  // bytes, as in Kubernetes
	mostLabelValue = 255 // bytes
)

const labelKey = "abcdefghijklmnopqrstuvwxyz0123456789_.-/"

// ParseLabel reads "rack=7". The value is everything after the first "=".
func ParseLabel(s string) (key, value string, err error) {
	key, value, ok := strings.Cut(s, "=")
	if !ok {
		return "", "", fmt.Errorf("label %.80q: there is no =, expected KEY=VALUE, as in rack=7", s)
	}
	return key, value, checkLabel(key, value)
}

// ParseLabels reads labels like [ParseLabel]. Repeated keys are errors.
func ParseLabels(given []string) (Labels, error) {
	if len(given) == 0 {
		return nil, nil
	}
	out := Labels{}
	for _, s := range given {
		key, value, err := ParseLabel(s)
		if err != nil {
			return nil, err
		}
		if before, twice := out[key]; twice {
			return nil, fmt.Errorf("label %s is given twice, as %q and %q", key, before, value)
		}
		out[key] = value
	}
	return out, out.Check()
}

func checkLabel(key, value string) error {
	switch {
	case key == "":
		return errors.New("a label without a key, expected KEY=VALUE, as in rack=7")
	case len(key) > mostLabelKey:
		return fmt.Errorf("label %.80q: the key has %d bytes, expected at most %d", key, len(key), mostLabelKey)
	case strings.Trim(key, labelKey) != "":
		return fmt.Errorf("label %q: expected a key of a to z, 0 to 9, _ . - and /", key)
	case value == "":
		return fmt.Errorf("label %s has no value", key)
	case len(value) > mostLabelValue:
		return fmt.Errorf("label %s: the value has %d bytes, expected at most %d", key, len(value), mostLabelValue)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !strconv.IsGraphic(r) }):
		return fmt.Errorf("label %s: %q, expected printable text of one line", key, value)
	}
	return nil
}

// Check returns an error that names the first invalid label in key order.
func (l Labels) Check() error {
	if len(l) > MostLabels {
		return fmt.Errorf("%d labels, expected at most %d", len(l), MostLabels)
	}
	for _, key := range l.Keys() {
		if err := checkLabel(key, l[key]); err != nil {
			return err
		}
	}
	return nil
}

// Keys returns the sorted keys.
func (l Labels) Keys() []string { return slices.Sorted(maps.Keys(l)) }

// String returns "rack=7, row=b", in key order.
func (l Labels) String() string {
	words := make([]string, 0, len(l))
	for _, key := range l.Keys() {
		words = append(words, key+"="+l[key])
	}
	return strings.Join(words, ", ")
}

// Common returns the labels that both have; nil if there are none.
func (l Labels) Common(o Labels) Labels {
	var out Labels
	for key, value := range l {
		if other, ok := o[key]; ok && other == value {
			if out == nil {
				out = Labels{}
			}
			out[key] = value
		}
	}
	return out
}

// Differing returns the sorted keys whose values differ or are missing in one.
func (l Labels) Differing(o Labels) []string {
	all := maps.Clone(o)
	if all == nil {
		all = Labels{}
	}
	maps.Copy(all, l)
	for key := range l.Common(o) {
		delete(all, key)
	}
	return all.Keys()
}
