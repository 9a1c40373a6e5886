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
	"github.com/gemmaudit/gemmaudit/results/field"
)

type DeviceInfo struct {
	kernels.Spec
	// Ceilings is nil if they were not measured.
	Ceilings *kernels.Ceilings `json:"ceilings,omitempty"`
	// Constants are the planning constants of the device's kernels; may be nil.
	Constants *kernels.Constants `json:"constants,omitempty"`
	Kernels   []KernelInfo       `json:"kernels"`
	Missing   []kernels.Missing  `json:"missing,omitempty"`
}

type KernelInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Operations lists the operations that the kernel computes.
	Operations []kernels.Operation `json:"operations"`
	DTypes     []kernels.DType     `json:"dtypes"`
	// Packs lists the data types whose weights the kernel repacks, by the layout of the given weights.
	Packs map[kernels.Layout][]kernels.DType `json:"packs,omitempty"`
	// Quantized lists the activation types that the kernel multiplies with quantized weights, by weight type:
	// "int4".
	Quantized map[string][]kernels.DType `json:"quantised,omitempty"`
	// Unsupported holds the reason for each data type that the kernel rejects.
	Unsupported map[kernels.DType]string `json:"unsupported,omitempty"`
	// UnsupportedQuantized holds, by weight type, the reason for each activation type that a kernel for
	// quantized weights rejects.
	UnsupportedQuantized map[string]map[kernels.DType]string `json:"unsupported_quantised,omitempty"`
}

// probes returns the tasks that test a kernel's support for a data type: an engine's shapes, small and large,
// because libraries take some types only in multiples of 16, and the smallest shape. Products have weights in both layouts.
func probes(o kernels.Operation, dtype kernels.DType) (out []kernels.Task) {
	add := func(sizes []kernels.Dims, ms ...int) {
		for _, d := range sizes {
			for _, m := range ms {
				out = append(out, kernels.Task{Subject: kernels.Subject{Operation: o, DType: dtype, Dims: d}, M: m})
			}
		}
	}
	def := o.Definition()
	add(def.Probes, 1, 4096)
	add(def.Least, 1)
	if o.HasWeights() {
		for _, t := range out {
			t.Layout = kernels.Transposed
			out = append(out, t)
		}
	}
	return out
}

// takes returns nil if the kernel takes any probe, else the first probe's error.
func takes(k kernels.Kernel, o kernels.Operation, dtype kernels.DType) error {
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

// Describe queries a device for the data of [WriteDevices].
func Describe(d kernels.Device, ceilings *kernels.Ceilings) DeviceInfo {
	info := DeviceInfo{Spec: d.Spec(), Ceilings: ceilings, Missing: d.Missing()}
	if c, ok := d.(kernels.ConstantsTeller); ok {
		k := c.Constants()
		info.Constants = &k
	}
	for _, o := range kernels.Operations() {
		for _, k := range d.Kernels(o) {
			one := describeKernel(k, o)
			same := slices.IndexFunc(info.Kernels, func(have KernelInfo) bool {
				return have.Name == one.Name && have.Description == one.Description && slices.Equal(have.DTypes, one.DTypes) &&
					have.typesText() == one.typesText()
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

func describeKernel(k kernels.Kernel, o kernels.Operation) KernelInfo {
	info := KernelInfo{Name: k.Name(), Description: k.Describe(), Operations: []kernels.Operation{o}}
	for _, dtype := range kernels.DTypes() {
		info.quantized(k, o, dtype)
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
	if len(info.Quantized) == 0 && len(info.DTypes) > 0 {
		info.UnsupportedQuantized = nil // it takes unquantized weights
	}
	return info
}

func reasonOf(err error) string {
	var u *kernels.Unsupported
	if errors.As(err, &u) {
		return u.Reason
	}
	return err.Error()
}

// quantized records the quantized weight types that a kernel takes with an activation type, with group sizes
// that all such kernels support.
func (i *KernelInfo) quantized(k kernels.Kernel, o kernels.Operation, dtype kernels.DType) {
	if !o.HasWeights() {
		return
	}
	for _, of := range kernels.WeightTypes() {
		task := probes(o, dtype)[0]
		task.Layout = kernels.Transposed
		var err error
		if task.Weights, err = of.Format(128).For(dtype, task.K); err != nil {
			continue // of no kernel
		}
		if err := k.Supports(task); err != nil {
			if i.UnsupportedQuantized == nil {
				i.UnsupportedQuantized = map[string]map[kernels.DType]string{}
			}
			if i.UnsupportedQuantized[task.Weights.Type] == nil {
				i.UnsupportedQuantized[task.Weights.Type] = map[kernels.DType]string{}
			}
			i.UnsupportedQuantized[task.Weights.Type][dtype] = reasonOf(err)
			continue
		}
		if i.Quantized == nil {
			i.Quantized = map[string][]kernels.DType{}
		}
		i.Quantized[task.Weights.Type] = append(i.Quantized[task.Weights.Type], dtype)
	}
}

func (i KernelInfo) typesText() string {
	words := []string{dtypesText(i.DTypes)}
	if len(i.Quantized) > 0 {
		words = append(words, "weights "+strings.Join(slices.Sorted(maps.Keys(i.Quantized)), " "))
	}
	return strings.TrimPrefix(strings.Join(words, ", "), ", ")
}

// lacksText lists the rejected types, grouped by reason: "tf32 fp8: CPU kernels compute fp32, fp16, bf16 and
// int8". For a kernel without unquantized weights it lists only the quantized types.
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
		if reason, ok := i.Unsupported[d]; ok && (len(i.DTypes) > 0 || len(i.Quantized) == 0) {
			note(string(d), reason)
		}
	}
	for _, weights := range slices.Sorted(maps.Keys(i.UnsupportedQuantized)) {
		for _, d := range kernels.DTypes() {
			if reason, ok := i.UnsupportedQuantized[weights][d]; ok {
				note(fmt.Sprintf("%s with %s", d, weights), reason)
			}
		}
	}
	for k, reason := range reasons {
		reasons[k] = strings.Join(types[reason], ", ") + ": " + reason
	}
	return strings.Join(reasons, "; ")
}

func (i *KernelInfo) packs(k kernels.Kernel, o kernels.Operation, dtype kernels.DType) {
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

var weightLayouts = []kernels.Layout{kernels.RowMajor, kernels.Transposed}

// packsText lists the layouts whose weights a kernel packs: "kn nk", or "kn (int8 fp8)" if it packs only some
// types.
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

func dtypesText(dtypes []kernels.DType) string {
	words := make([]string, len(dtypes))
	for i, t := range dtypes {
		words[i] = string(t)
	}
	return strings.Join(words, " ")
}

type devicePeak struct {
	kernels.Peak
	device string
}

var peakFields = field.Of([]field.Field[devicePeak]{
	{Name: "device", Head: "device", JSON: "-", Words: "the device, as cuda:0", Value: func(p devicePeak) any { return p.device }},
	{Name: "dtype", Head: "dtype", JSON: "-", Words: "the data type", Value: func(p devicePeak) any { return p.DType }},
	{Name: "gflops", Head: "peak", Unit: field.GFLOPS, JSON: "-", Words: "operations a second",
		Value: func(p devicePeak) any { return rate{p.FLOPS, p.DType} }},
	{Name: "origin", Head: "origin", JSON: "-", Words: "measured, computed or of the data sheet",
		Value: func(p devicePeak) any { return string(p.Origin) }},
	{Name: "unit", Head: "unit", JSON: "-", Words: "the unit that computes it", Value: func(p devicePeak) any { return p.Unit }},
	{Name: "clock_mhz", Head: "clock MHz", Unit: field.MHz, JSON: "-", Words: "the clock that it holds at",
		Value: func(p devicePeak) any { return unlessNone(p.ClockMHz) }},
})

// WriteDevices prints the devices and kernels available for an audit. missing holds devices that could not be
// opened. CSV holds the peaks.
func WriteDevices(w io.Writer, f Format, devices []DeviceInfo, missing []kernels.Missing) error {
	value := struct {
		Devices []DeviceInfo      `json:"devices"`
		Missing []kernels.Missing `json:"missing,omitempty"`
	}{devices, missing}
	if value.Devices == nil {
		value.Devices = []DeviceInfo{}
	}
	doc := &Document{Subject: "devices", Value: value, Items: items(devices)}
	var peaks []devicePeak
	for _, d := range devices {
		doc.Sheets = append(doc.Sheets, deviceSheet(d))
		if d.Ceilings == nil {
			continue
		}
		for _, p := range sortedPeaks(d.Ceilings.Peaks) {
			peaks = append(peaks, devicePeak{p, d.ID})
		}
	}
	doc.Main = len(doc.Sheets)
	doc.Sheets = append(doc.Sheets, sheetOf("Peaks", peakFields, peaks), kernelSheet(devices, missing))
	if len(devices) == 0 {
		doc.Head = append(doc.Head, Note{"no device can be audited on this machine", Bad})
	}
	return doc.Render(w, f)
}

// sortedPeaks orders peaks like the data types in tables, with the preferred origin first.
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

func deviceSheet(d DeviceInfo) Sheet {
	var lines []Property
	add := func(name string, value any) {
		if toCell(value).Text() != "" {
			lines = append(lines, Property{name, value})
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
	}
	return PairSheet(d.ID+"  "+d.Name, "property", "value", lines)
}

func operationsText(operations []kernels.Operation) string {
	if len(operations) == 0 {
		return ""
	}
	if group := operations[0].Definition().Group; group != "" {
		whole := slices.DeleteFunc(kernels.Operations(), func(o kernels.Operation) bool { return o.Definition().Group != group })
		if slices.Equal(operations, whole) {
			return group
		}
	}
	words := make([]string, len(operations))
	for i, o := range operations {
		words[i] = o.String()
	}
	return strings.Join(words, " ")
}

func kernelSheet(devices []DeviceInfo, missing []kernels.Missing) Sheet {
	s := Sheet{Title: "Kernels", Columns: []Column{
		{Name: "device", Key: "device"}, {Name: "kernel", Key: "kernel"}, {Name: "state", Key: "state"},
		{Name: "operation", Key: "operation"}, {Name: "dtypes", Key: "dtypes"}, {Name: "packs", Key: "packs"},
		{Name: "lacks", Key: "lacks", Wide: true}, {Name: "what it is, or why not", Key: "text", Flex: true},
	}}
	for _, d := range devices {
		for _, k := range d.Kernels {
			state := word{"available", Good}
			if len(k.DTypes)+len(k.Quantized) == 0 {
				state = word{"unusable", Open}
			}
			s.Rows = append(s.Rows,
				[]any{d.ID, k.Name, state, operationsText(k.Operations), k.typesText(), k.packsText(), k.lacksText(), k.Description})
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

// ConstantsText says which card's constants plan a device's kernels.
func ConstantsText(k kernels.Constants) string {
	if k.Own {
		return fmt.Sprintf("planned by the constants of %s that ship (%s)", k.Card, k.ID)
	}
	return fmt.Sprintf("planned by the constants of %s, the nearest card that was seen (%s)", k.Card, k.ID)
}
