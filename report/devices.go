package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// DeviceInfo is a device with what can run on it.
type DeviceInfo struct {
	kernels.Spec
	// Ceilings is nil when they were not measured.
	Ceilings *kernels.Ceilings `json:"ceilings,omitempty"`
	// Constants are those by which kernels are planned, nil where none are.
	Constants *kernels.Constants `json:"constants,omitempty"`
	Kernels   []KernelInfo       `json:"kernels"`
	Missing   []kernels.Missing  `json:"missing,omitempty"`
}

// KernelInfo is a kernel that can run on a device.
type KernelInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Operations are those that the kernel computes.
	Operations []kernels.Operation `json:"operations"`
	DTypes     []kernels.DType     `json:"dtypes"`
	// Packs lists the data types whose weights the kernel brings into a form of its own, by
	// the layout in which they are given.
	Packs map[kernels.Layout][]kernels.DType `json:"packs,omitempty"`
	// Quantised lists the types of activations that the kernel multiplies with quantised
	// weights, by the weights' type: "int4".
	Quantised map[string][]kernels.DType `json:"quantised,omitempty"`
	// Unsupported gives the reason for each data type that the kernel refuses.
	Unsupported map[kernels.DType]string `json:"unsupported,omitempty"`
	// UnsupportedQuantised gives the reason, by the weights' type, for each type of activations that
	// a kernel for quantised weights refuses.
	UnsupportedQuantised map[string]map[kernels.DType]string `json:"unsupported_quantised,omitempty"`
}

// probes are the tasks by which a kernel is asked for a data type: an engine's, small and
// large, since libraries take some types in multiples of 16 alone, and the smallest.
func probes(o kernels.Operation, dtype kernels.DType) []kernels.Task {
	if o == kernels.GEMM {
		big, least := kernels.Product(dtype, 4096, 4096), kernels.Product(dtype, 1, 1)
		return []kernels.Task{{Subject: big, M: 1}, {Subject: big, M: 4096}, {Subject: least, M: 1}}
	}
	if !o.Stores() {
		s := kernels.Subject{Operation: o, DType: dtype, Dims: kernels.Dims{Columns: 1024}}
		return []kernels.Task{{Subject: s, M: 1}, {Subject: s, M: 4096}}
	}
	s := kernels.Subject{Operation: o, DType: dtype, Dims: kernels.Dims{QueryHeads: 32, KVHeads: 8, HeadDim: 128}}
	return []kernels.Task{{Subject: s, M: 1}, {Subject: s, M: 4096}}
}

// takes is nil when a kernel takes one of the probes, and else why not the first.
func takes(k kernels.Implementation, o kernels.Operation, dtype kernels.DType) error {
	var why error
	for _, task := range probes(o, dtype) {
		err := k.Supports(task)
		if err == nil {
			return nil
		}
		if why == nil {
			why = err
		}
	}
	return why
}

// Describe asks a device for what [WriteDevices] shows.
func Describe(d kernels.Device, ceilings *kernels.Ceilings) DeviceInfo {
	info := DeviceInfo{Spec: d.Spec(), Ceilings: ceilings, Missing: d.Missing()}
	if c, ok := d.(kernels.Calibrated); ok {
		k := c.Constants()
		info.Constants = &k
	}
	for _, o := range kernels.Operations() {
		for _, k := range kernels.Implementations(d, o) {
			one := describeKernel(k, o)
			same := slices.IndexFunc(info.Kernels, func(have KernelInfo) bool {
				return have.Name == one.Name && have.Description == one.Description && slices.Equal(have.DTypes, one.DTypes) && have.typesText() == one.typesText()
			})
			if same >= 0 {
				info.Kernels[same].Operations = append(info.Kernels[same].Operations, o)
				continue
			}
			info.Kernels = append(info.Kernels, one)
		}
	}
	return info
}

// describeKernel asks a kernel for the data types in which it computes an operation.
func describeKernel(k kernels.Implementation, o kernels.Operation) KernelInfo {
	info := KernelInfo{Name: k.Name(), Description: k.Describe(), Operations: []kernels.Operation{o}}
	for _, dtype := range kernels.DTypes() {
		info.quantised(k, o, dtype)
		err := takes(k, o, dtype)
		if err == nil {
			info.DTypes = append(info.DTypes, dtype)
			info.packs(k, o, dtype)
			continue
		}
		if info.Unsupported == nil {
			info.Unsupported = map[kernels.DType]string{}
		}
		info.Unsupported[dtype] = reasonOf(err)
	}
	if len(info.Quantised) == 0 && len(info.DTypes) > 0 {
		info.UnsupportedQuantised = nil // it is for plain weights
	}
	return info
}

// reasonOf is why a kernel refuses a task, without its name.
func reasonOf(err error) string {
	var u *kernels.Unsupported
	if errors.As(err, &u) {
		return u.Reason
	}
	return err.Error()
}

// quantised notes the types of quantised weights that a kernel takes with activations of a type, by
// groups that all such kernels have.
func (i *KernelInfo) quantised(k kernels.Implementation, o kernels.Operation, dtype kernels.DType) {
	if !o.HasWeights() {
		return
	}
	for _, bits := range []int{4, 8} {
		task := probes(o, dtype)[0]
		task.Layout = kernels.Transposed
		var err error
		if task.Weights, err = (kernels.Quantisation{Bits: bits, Group: 128}).Format(dtype, task.K); err != nil {
			continue // of no kernel
		}
		if err := k.Supports(task); err != nil {
			if i.UnsupportedQuantised == nil {
				i.UnsupportedQuantised = map[string]map[kernels.DType]string{}
			}
			if i.UnsupportedQuantised[task.Weights.Type] == nil {
				i.UnsupportedQuantised[task.Weights.Type] = map[kernels.DType]string{}
			}
			i.UnsupportedQuantised[task.Weights.Type][dtype] = reasonOf(err)
			continue
		}
		if i.Quantised == nil {
			i.Quantised = map[string][]kernels.DType{}
		}
		i.Quantised[task.Weights.Type] = append(i.Quantised[task.Weights.Type], dtype)
	}
}

// typesText lists the data types that a kernel takes, and the types of quantised weights.
func (i KernelInfo) typesText() string {
	words := []string{dtypesText(i.DTypes)}
	if len(i.Quantised) > 0 {
		words = append(words, "weights "+strings.Join(slices.Sorted(maps.Keys(i.Quantised)), " "))
	}
	return strings.TrimPrefix(strings.Join(words, ", "), ", ")
}

// lacksText lists the types that a kernel refuses, those of one reason together: "tf32 fp8: CPU kernels
// compute fp32, fp16, bf16 and int8". Of a kernel that takes no plain weights at all it lists the
// quantised ones alone.
func (i KernelInfo) lacksText() string {
	var reasons []string
	types := map[string][]string{}
	note := func(name, reason string) {
		if types[reason] == nil {
			reasons = append(reasons, reason)
		}
		types[reason] = append(types[reason], name)
	}
	for _, d := range kernels.DTypes() {
		if reason, ok := i.Unsupported[d]; ok && (len(i.DTypes) > 0 || len(i.Quantised) == 0) {
			note(string(d), reason)
		}
	}
	for _, weights := range slices.Sorted(maps.Keys(i.UnsupportedQuantised)) {
		for _, d := range kernels.DTypes() {
			if reason, ok := i.UnsupportedQuantised[weights][d]; ok {
				note(fmt.Sprintf("%s with %s", d, weights), reason)
			}
		}
	}
	for k, reason := range reasons {
		reasons[k] = strings.Join(types[reason], ", ") + ": " + reason
	}
	return strings.Join(reasons, "; ")
}

// packs notes the layouts in which an engine's weights of a type are packed.
func (i *KernelInfo) packs(k kernels.Implementation, o kernels.Operation, dtype kernels.DType) {
	if !o.HasWeights() {
		return
	}
	for _, layout := range weightLayouts {
		task := probes(o, dtype)[0]
		if task.Layout = layout; kernels.Packs(k, task) {
			if i.Packs == nil {
				i.Packs = map[kernels.Layout][]kernels.DType{}
			}
			i.Packs[layout] = append(i.Packs[layout], dtype)
		}
	}
}

// weightLayouts are those in which weights may be given.
var weightLayouts = []kernels.Layout{kernels.RowMajor, kernels.Transposed}

// packsText words for which layouts a kernel packs weights: "kn nk", "kn (int8 fp8)" where it
// does so for some of its types.
func (i KernelInfo) packsText() string {
	var words []string
	for _, layout := range weightLayouts {
		switch packed := i.Packs[layout]; {
		case len(packed) == 0:
		case len(packed) == len(i.DTypes):
			words = append(words, layout.String())
		default:
			words = append(words, fmt.Sprintf("%v (%s)", layout, dtypesText(packed)))
		}
	}
	return strings.Join(words, " ")
}

// dtypesText lists data types.
func dtypesText(dtypes []kernels.DType) string {
	words := make([]string, len(dtypes))
	for i, t := range dtypes {
		words[i] = string(t)
	}
	return strings.Join(words, " ")
}

// WriteDevices prints what can be audited on this machine. missing are devices
// that could not be opened. CSV holds the peaks.
func WriteDevices(w io.Writer, f Format, devices []DeviceInfo, missing []kernels.Missing) error {
	value := struct {
		Devices []DeviceInfo      `json:"devices"`
		Missing []kernels.Missing `json:"missing,omitempty"`
	}{devices, missing}
	if value.Devices == nil {
		value.Devices = []DeviceInfo{}
	}
	doc := &Document{Subject: "devices", Value: value, Items: []any{}}
	peaks := Sheet{Title: "Peaks", Columns: []Column{
		{Name: "device", Key: "device"}, {Name: "dtype", Key: "dtype"},
		{Name: "peak", Key: "gflops", Align: Right}, {Name: "origin", Key: "origin"}, {Name: "unit", Key: "unit"},
		{Name: "clock MHz", Key: "clock_mhz", Align: Right},
	}}
	for _, d := range devices {
		doc.Items = append(doc.Items, d)
		doc.Sheets = append(doc.Sheets, deviceSheet(d))
		if d.Ceilings == nil {
			continue
		}
		for _, p := range sortedPeaks(d.Ceilings.Peaks) {
			var clock any
			if p.ClockMHz > 0 {
				clock = number{p.ClockMHz, 0}
			}
			peaks.Rows = append(peaks.Rows, []any{d.ID, p.DType, rate{p.FLOPS, p.DType}, string(p.Origin), p.Unit, clock})
		}
	}
	doc.Main = len(doc.Sheets)
	doc.Sheets = append(doc.Sheets, peaks, kernelSheet(devices, missing))
	if len(devices) == 0 {
		doc.Head = append(doc.Head, Note{"no device can be audited on this machine", Bad})
	}
	return doc.Render(w, f)
}

// sortedPeaks orders peaks as tables show data types, the preferred origin first.
func sortedPeaks(peaks []kernels.Peak) []kernels.Peak {
	dtypes := map[kernels.DType]int{}
	for i, d := range kernels.DTypes() {
		dtypes[d] = i
	}
	origins := map[kernels.PeakOrigin]int{kernels.Measured: 0, kernels.Computed: 1, kernels.DataSheet: 2}
	out := append([]kernels.Peak(nil), peaks...)
	sort.SliceStable(out, func(i, j int) bool {
		if a, b := dtypes[out[i].DType], dtypes[out[j].DType]; a != b {
			return a < b
		}
		return origins[out[i].Origin] < origins[out[j].Origin]
	})
	return out
}

// deviceSheet lists the properties of one device.
func deviceSheet(d DeviceInfo) Sheet {
	s := Sheet{
		Title:   d.ID + "  " + d.Name,
		Columns: []Column{{Name: "property", Key: "property"}, {Name: "value", Key: "value", Flex: true}},
	}
	add := func(name string, value any) {
		if toCell(value).Text() != "" {
			s.Rows = append(s.Rows, []any{name, value})
		}
	}
	add(d.Kind.Facts().Unit+"s", d.Units)
	add("memory", size(d.MemoryBytes))
	for _, c := range d.Caches {
		text := Bytes(c.Bytes)
		if c.Count > 1 {
			text = fmt.Sprintf("%d × %s", c.Count, text)
		}
		add(fmt.Sprintf("L%d cache", c.Level), text)
	}
	add("last-level cache", size(d.LastLevelCacheBytes))
	add("weights rotate past", size(kernels.RotationFactor*d.LastLevelCacheBytes))
	add("instruction sets", strings.Join(d.Features, " "))
	if d.Ceilings != nil {
		add("read bandwidth", gbytes(d.Ceilings.ReadBandwidth))
		add("copy bandwidth", gbytes(d.Ceilings.CopyBandwidth))
		if d.Ceilings.LinkBandwidth > 0 {
			add("link bandwidth", gbytes(d.Ceilings.LinkBandwidth))
		}
	}
	for _, named := range []map[string]string{d.Versions, d.Settings} {
		for _, name := range slices.Sorted(maps.Keys(named)) {
			add(name, named[name])
		}
	}
	if d.Constants != nil {
		add("kernels", ConstantsText(*d.Constants))
		add("note", d.Constants.Note)
	}
	return s
}

// operationsText names operations: "gemm", "attention" for all of attention's.
func operationsText(operations []kernels.Operation) string {
	if slices.Equal(operations, []kernels.Operation{kernels.AttentionPrefill, kernels.AttentionDecode}) {
		return "attention"
	}
	if slices.Equal(operations, []kernels.Operation{kernels.Softmax, kernels.LogSoftmax}) {
		return "softmax"
	}
	words := make([]string, len(operations))
	for i, o := range operations {
		words[i] = o.String()
	}
	return strings.Join(words, " ")
}

// kernelSheet lists what can run where, and what can't, with reasons.
func kernelSheet(devices []DeviceInfo, missing []kernels.Missing) Sheet {
	s := Sheet{Title: "Kernels", Columns: []Column{
		{Name: "device", Key: "device"}, {Name: "kernel", Key: "kernel"}, {Name: "state", Key: "state"},
		{Name: "operation", Key: "operation"}, {Name: "dtypes", Key: "dtypes"}, {Name: "packs", Key: "packs"}, {Name: "lacks", Key: "lacks", Wide: true}, {Name: "what it is, or why not", Key: "text", Flex: true},
	}}
	for _, d := range devices {
		for _, k := range d.Kernels {
			state := word{"available", Good}
			if len(k.DTypes)+len(k.Quantised) == 0 {
				state = word{"unusable", Open}
			}
			s.Rows = append(s.Rows, []any{d.ID, k.Name, state, operationsText(k.Operations), k.typesText(), k.packsText(), k.lacksText(), k.Description})
		}
		for _, m := range d.Missing {
			s.Rows = append(s.Rows, []any{d.ID, m.Name, word{"missing", Faint}, nil, nil, nil, nil, m.Reason})
		}
	}
	for _, m := range missing {
		s.Rows = append(s.Rows, []any{m.Name, nil, word{"missing", Faint}, nil, nil, nil, nil, m.Reason})
	}
	return s
}
