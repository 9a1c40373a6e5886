package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// SearchSetting is a value that distinguishes searches for remedies, by the flag that sets it.
type SearchSetting struct{ Flag, Value string }

// SearchSettings returns the values that distinguish searches.
func SearchSettings(o remedy.Options) []SearchSetting {
	onOff := map[bool]string{false: "off", true: "on"}
	rulesOr := func(v float64) string {
		if v == 0 {
			return "by the rules"
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	kinds := make([]string, len(o.Kinds))
	for i, k := range o.Kinds {
		kinds[i] = string(k)
	}
	return []SearchSetting{
		{"among", cmp.Or(o.Among, remedy.AmongFlagged)},
		{"ratio", rulesOr(o.Ratio)},
		{"max-parts", rulesOr(float64(o.MaxParts))},
		{"remedies", namesOrAll(kinds)},
		{"engine-kernels", namesOrAll(o.Kernels)},
		{"pads", cmp.Or(o.Pads, remedy.PadsInPlace)},
		{"predicted", cmp.Or(o.Candidates, remedy.CandidatesLikely)},
		{"fill", onOff[o.Fill]},
		{"same-bits", onOff[o.SameBits]},
		{"batch-invariant", onOff[o.BatchInvariant]},
	}
}

func namesOrAll(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ",")
}

// SearchChange is a setting in which two searches differ.
type SearchChange struct{ Flag, Was, Is string }

// String returns for example "--pads was in-place and is copied".
func (c SearchChange) String() string {
	return fmt.Sprintf("--%s was %s and is %s", c.Flag, c.Was, c.Is)
}

// SearchChanges lists the settings in which a search differs from an earlier one.
func SearchChanges(is, was remedy.Options) []SearchChange {
	var out []SearchChange
	before := SearchSettings(was)
	for i, now := range SearchSettings(is) {
		if now.Value != before[i].Value {
			out = append(out, SearchChange{now.Flag, before[i].Value, now.Value})
		}
	}
	return out
}
