package results

import (
	"encoding/json"
	"fmt"
)

// leastObjectBytes is less than what an object takes on average in the JSON that runs hold.
const leastObjectBytes = 12

// CheckJSON refuses text whose decoding would take memory out of proportion to its length: lists
// of objects in which nothing stands take three bytes each, and hundreds once they are decoded.
// What else may be wrong with the text is left to the decoder.
func CheckJSON(text string) error {
	objects, quoted, before := 0, false, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
			continue
		case c == '"':
			quoted = !quoted
		case quoted || c == ' ' || c == '\n' || c == '\t' || c == '\r':
			continue
		case c == '{', c == 'n' && before != ':': // an element that is null is as large as the others
			objects++
		}
		before = text[i]
	}
	if most := 1<<10 + len(text)/leastObjectBytes; objects > most {
		return fmt.Errorf("%d objects in %d bytes, expected at most %d", objects, len(text), most)
	}
	return nil
}

// decodeJSON reads text that a stranger may have written.
func decodeJSON(text string, to any) error {
	if err := CheckJSON(text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), to)
}

// MostPlannedMs bounds the Ms of all series of a plan together: a hundred times those of a long sweep. A plan of 80 KB can list as many as
// this allows, and each takes 16 bytes while it is read.
const MostPlannedMs = 1 << 23

// CheckPlan refuses a plan that would take memory out of proportion to its length: a range of Ms
// takes a few characters. What else may be wrong with it is left to the decoder.
func CheckPlan(plan json.RawMessage) error {
	if err := CheckJSON(string(plan)); err != nil {
		return err
	}
	var lists struct {
		Series plannedMs `json:"series"`
	}
	return json.Unmarshal(plan, &lists)
}

// plannedMs is how many Ms the series of a plan have together. A list that comes twice counts
// twice, as it is decoded twice.
type plannedMs int

// UnmarshalJSON adds the Ms of a list of series; the error says that there are too many.
func (n *plannedMs) UnmarshalJSON(data []byte) error {
	var series []struct {
		Ms listedMs `json:"ms"`
	}
	if err := json.Unmarshal(data, &series); err != nil {
		return err
	}
	for _, s := range series {
		if *n += plannedMs(s.Ms); *n > MostPlannedMs {
			return fmt.Errorf("more than %d Ms in %d series", MostPlannedMs, len(series))
		}
	}
	return nil
}

// listedMs is how many Ms are listed for a series.
type listedMs int

// UnmarshalJSON adds the Ms of a list; the error says that there are too many.
func (n *listedMs) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	total := 0
	// What is no range is refused when it is read.
	_ = eachRange(s, func(from, to, step int) error {
		total += (to-from)/step + 1
		return nil
	})
	if *n += listedMs(min(total, MaxMs)); *n > MostPlannedMs {
		return fmt.Errorf("more than %d Ms in a series", MostPlannedMs)
	}
	return nil
}
