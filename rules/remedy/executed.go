package remedy

import (
	"maps"
	"strconv"

	"github.com/gemmaudit/gemmaudit/rules"
)

// Executed is the result of executing remedies, kept in the run for commands without a device.
type Executed struct {
	// Search is the options of the search as given; zero fields mean the rules file's values.
	Search Options `json:"search"`
	// Settings are the values of the keys that affect the remedies, Samples the number of samples of the
	// sweep.
	Settings map[string]string `json:"settings"`
	Samples  int               `json:"samples"`
	Result   *Result           `json:"result"`
}

// NewExecuted makes the record of a search that used the device.
func NewExecuted(r *Result, cfg rules.Config, o Options, samples int) *Executed {
	return &Executed{Search: o, Settings: o.settings(cfg), Samples: samples, Result: r}
}

// settings are the values that remedies depend on. A search's own limits replace the rules file's.
func (o Options) settings(cfg rules.Config) map[string]string {
	var replaced []string
	if o.MaxParts != 0 {
		replaced = append(replaced, "remedy.max_parts")
	}
	if o.Among == AmongAll {
		replaced = append(replaced, "threshold")
	}
	return rules.RemedySettings(cfg, replaced...)
}

// Undone lists why the remedies are invalid under cfg for that number of samples; nil if they are valid.
func (e *Executed) Undone(cfg rules.Config, samples int) []rules.Undone {
	why := rules.Changed(e.Settings, e.Search.settings(cfg))
	if e.Samples != samples {
		why = append(why, rules.Undone{Key: "samples", Old: strconv.Itoa(e.Samples), New: strconv.Itoa(samples)})
	}
	return why
}

// SameSettings reports whether both rest on the same settings and number of samples.
func (e *Executed) SameSettings(o *Executed) bool {
	return e.Samples == o.Samples && maps.Equal(e.Settings, o.Settings)
}
