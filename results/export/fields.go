package export

import (
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
)

// Fields are a sample's properties in an export's column order. JSON and Parquet use the tags of
// [Line].
var Fields = field.Of([]field.Field[*Line]{
	shared("device", func(e *Line) any { return e.Device }),
	shared("kernel", func(e *Line) any { return e.Kernel }),
	shared("dtype", func(e *Line) any { return string(e.DType) }),
	{Name: "m", Kind: field.Count, Where: "m", Words: "the M of a row", Value: func(e *Line) any { return e.M }},
	shared("n", func(e *Line) any { return e.N }),
	shared("k", func(e *Line) any { return e.K }),
	{Name: "round", Kind: field.Count, Where: "round", Words: "round within the phase", Value: func(e *Line) any { return e.Round }},
	{Name: "us", Unit: field.Micros, Where: "us", Words: "time of a launch as it was observed",
		Value: func(e *Line) any { return e.US }},
	{Name: "clock_mhz", Unit: field.MHz, Where: "clock", Words: "clock of the device",
		Value: func(e *Line) any { return known(e.ClockMHz) }},
	{Name: "power_w", Unit: field.Watts, Where: "power", Words: "power of the device",
		Value: func(e *Line) any { return known(e.PowerW) }},
	{Name: "temp_c", Unit: field.Celsius, Where: "temperature", Words: "temperature of the device",
		Value: func(e *Line) any { return known(e.TempC) }},
	{Name: "phase", Where: "phase", Words: "the purpose of a sample, as sweep or confirm",
		Value: func(e *Line) any { return string(e.Phase) }},
	{Name: "seq", Kind: field.Count, Words: "place of the sample in the run", Value: func(e *Line) any { return int(e.Seq) }},
	{Name: "started", Words: "when the block began", Value: func(e *Line) any { return e.Started.String() }},
	{Name: "launches", Kind: field.Count, Where: "launches", Words: "launches in the sample's block",
		Value: func(e *Line) any { return e.Launches }},
	{Name: "throttle", Where: "throttle", Words: "throttle reason, empty if not throttled",
		Value: func(e *Line) any { return string(e.Throttle) }},
	{Name: "disturbance", Where: "disturbance", Words: "disturbance of the block by the system, empty if undisturbed",
		Value: func(e *Line) any { return e.Disturbance }},
	shared("regime", func(e *Line) any { return string(e.Regime) }),
	shared("threads", func(e *Line) any { return e.Threads }),
	{Name: "pack_inside", Kind: field.Flag, Words: "the weights were packed inside the timing",
		Value: func(e *Line) any { return e.PackInside }},
	{Name: "parts", Words: "the launches of a split, or that rows were copied", Value: func(e *Line) any { return e.Parts }},
	{Name: "pad_to", Kind: field.Count, Words: "the M that was computed for a padded product, else 0",
		Value: func(e *Line) any { return e.PadTo }},
	{Name: "label", Where: "label", Words: labelWords, Value: func(e *Line) any { return string(e.Label) }},
	{Name: "distribution", Words: "content of the operands", Value: func(e *Line) any { return string(e.Distribution) }},
	{Name: "seed", Words: "seed of the order and of the operands", Value: func(e *Line) any { return e.Seed }},
	{Name: "allocation", Kind: field.Count, Words: "which allocation of the operands was timed",
		Value: func(e *Line) any { return e.Allocation }},
	{Name: "energy_mj", Unit: field.Millijoules, Where: "energy", Words: "energy of a launch",
		Value: func(e *Line) any { return known(e.EnergyMJ) }},
	{Name: "host_us", Unit: field.Micros, Where: "host_us", Words: "time of the host to start a launch outside of a graph",
		Value: func(e *Line) any { return known(e.HostUS) }},
	{Name: "utils", Unit: field.Share, Words: "MFU as it was published", Value: func(e *Line) any { return known(e.Utils) }},
	{Name: "tile_m", Kind: field.Count, Words: "rows of a tile", Value: func(e *Line) any { return known(e.TileM) }},
	{Name: "tile_n", Kind: field.Count, Words: "columns of a tile", Value: func(e *Line) any { return known(e.TileN) }},
	{Name: "tile_k", Kind: field.Count, Words: "depth of a tile", Value: func(e *Line) any { return known(e.TileK) }},
	{Name: "waves", Kind: field.Number, Words: "waves of tiles over the device", Value: func(e *Line) any { return known(e.Waves) }},
	{Name: "split", Kind: field.Count, Words: "parts of K that are summed", Value: func(e *Line) any { return known(e.Split) }},
	{Name: "orientation", Words: "which of M and N a tile's rows run along", Value: func(e *Line) any { return string(e.Orientation) }},
	{Name: "run", Where: "run", Words: "the id of the run that measured", Value: func(e *Line) any { return string(e.Run) }},
	{Name: "host", Where: "host", Words: "the host that measured", Value: func(e *Line) any { return string(e.Host) }},
	{Name: "card", Where: "card", Words: "UUID or serial number of the card", Value: func(e *Line) any { return string(e.Card) }},
	{Name: "labels", Words: "the machine's labels, a JSON object", Value: func(e *Line) any { return string(e.Labels) }},
	shared("operation", func(e *Line) any { return e.Operation }),
	shared("layout", func(e *Line) any { return e.Layout }),
	{Name: "dims", Words: "the dimensions other than M, N and K as a JSON object, empty for a product",
		Value: func(e *Line) any { return e.Dims }},
	{Name: "operands", Words: "the operands' types as a JSON object, empty where they follow from dtype",
		Value: func(e *Line) any { return e.Operands }},
	{Name: "ceilings", Words: "the device's peaks and bandwidths as a JSON object, on its first line",
		Value: func(e *Line) any { return e.Ceilings }},
	{Name: "device_name", Words: "the device's model", Value: func(e *Line) any { return string(e.DeviceName) }},
	{Name: "mfu", Unit: field.Share, Words: "share of the device's peak", Value: func(e *Line) any { return known(e.MFU) }},
	{Name: "us_at_clock", Unit: field.Micros, Words: "time of a launch at the clock reference_clock_mhz",
		Value: func(e *Line) any { return known(e.USAtClock) }},
	{Name: "reference_clock_mhz", Unit: field.MHz, Words: "the clock at which rows are judged",
		Value: func(e *Line) any { return known(e.ReferenceMHz) }},
	{Name: "mfu_as_published", Unit: field.Share, Where: "mfu", NoColumn: true, JSON: "-",
		Words: "share of the peak, as it was published where it was", Value: func(e *Line) any {
			if e.Utils != nil {
				return *e.Utils
			}
			return known(e.MFU)
		}},
})

const labelWords = "the library's kernel or algorithm, where it is known"

func shared(name string, value func(*Line) any) field.Field[*Line] {
	f := field.Pick(results.SeriesFields, name)[0]
	return field.Field[*Line]{Name: f.Name, Kind: f.Kind, Unit: f.Unit, Words: f.Words, Where: f.Where, Value: value}
}

// known returns a figure, or nil if unknown.
func known[T int | float64](x *T) any {
	if x == nil {
		return nil
	}
	return *x
}

var exportColumns = func() []field.Field[*Line] {
	var out []field.Field[*Line]
	for _, f := range Fields {
		if !f.NoColumn {
			out = append(out, f)
		}
	}
	return out
}()

// SamplesColumns are the columns of a samples CSV in order. The first eight are required unless an option
// replaces them.
var SamplesColumns = func() []string {
	names := make([]string, len(exportColumns))
	for i, f := range exportColumns {
		names[i] = f.Name
	}
	return names
}()
