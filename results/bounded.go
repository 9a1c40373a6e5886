package results

import (
	"encoding/json"
	"fmt"
)

// leastObjectBytes is below the average size of an object in the JSON of runs.
const leastObjectBytes = 12

// CheckJSON refuses text that would decode to far more memory than its length: empty objects in lists take
// three bytes each, but hundreds when decoded. It leaves other errors to the decoder.
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
		case c == '{', c == 'n' && before != ':': // a null element is as large as the others
			objects++
		}
		before = text[i]
	}
	if most := 1<<10 + len(text)/leastObjectBytes; objects > most {
		return fmt.Errorf("%d objects in %d bytes, expected at most %d", objects, len(text), most)
	}
	return nil
}

// DecodeJSON decodes text that [CheckJSON] accepts.
func DecodeJSON(text string, to any) error {
	if err := CheckJSON(text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), to)
}

// MostPlannedMs limits the Ms of all series of a plan: a hundred times a long sweep's. A plan of 80 KB can
// list this many, and each takes 16 bytes while it is read.
const MostPlannedMs = 1 << 23

// CheckPlan refuses a plan that would decode to far more memory than its length, since a range of Ms takes a
// few characters. It leaves other errors to the decoder.
func CheckPlan(plan json.RawMessage) error {
	if err := CheckJSON(string(plan)); err != nil {
		return err
	}
	var lists struct {
		Series plannedMs `json:"series"`
	}
	return json.Unmarshal(plan, &lists)
}

// plannedMs counts the Ms of a plan's series. A repeated list counts twice because it is decoded twice.
type plannedMs int

// UnmarshalJSON adds the Ms of a list of series; it fails above the limit.
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

type listedMs int

// UnmarshalJSON adds the Ms of a list; it fails above the limit.
func (n *listedMs) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	total := 0
	// Reading refuses invalid ranges later.
	_ = eachRange(s, func(from, to, step int) error {
		total += (to-from)/step + 1
		return nil
	})
	if *n += listedMs(min(total, MaxMs)); *n > MostPlannedMs {
		return fmt.Errorf("more than %d Ms in a series", MostPlannedMs)
	}
	return nil
}
