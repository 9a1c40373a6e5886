package advice

import (
	"fmt"
	"slices"
	"strings"
)

// Setting is what an engine is told, ready to use.
type Setting struct {
	Engine string `json:"engine"`
	// Advice is which of the advices it carries out: "chunk" or "capture".
	Advice string `json:"advice"`
	// Form is where it goes: "command line", or "YAML" of a configuration.
	Form string `json:"form"`
	Text string `json:"text"`
	// Gains says of a chunk whether it gains over the usual ones, see [Chunk]; empty of other advices.
	Gains Gains `json:"gains,omitempty"`
	// Note says what to know about it; empty for nothing.
	Note string `json:"note,omitempty"`
}

// engine is one whose settings are known. docs/advise.md says in which version of whose documents.
type engine struct {
	name string
	// chunk and capture make settings of a chunk and of sizes; nil where the engine has none.
	chunk   func(m int) Setting
	capture func(sizes []int) Setting
	// decoding is set where sizes to capture are of decoding sequences, else of tokens.
	decoding bool
	// sequences is the engine's own bound of sequences, and its default.
	sequences string
}

var engines = []engine{
	{
		name: "vllm", sequences: "max_num_seqs, 256 or more by the card",
		chunk: func(m int) Setting {
			return Setting{Form: commandLine, Text: fmt.Sprintf("--max-num-batched-tokens %d", m), Note: "tokens of decoding sequences in a mixed batch count, too"}
		},
		capture: func(sizes []int) Setting {
			return Setting{Form: commandLine, Text: fmt.Sprintf(`--compilation-config '{"cudagraph_capture_sizes": [%s]}'`, Text(sizes)), Note: "sizes count tokens; recent versions also take --cudagraph-capture-sizes"}
		},
	},
	{
		name: "sglang", decoding: true, sequences: "max_running_requests, by the memory that is free",
		chunk: func(m int) Setting {
			return Setting{Form: commandLine, Text: fmt.Sprintf("--chunked-prefill-size %d", m)}
		},
		capture: func(sizes []int) Setting {
			return Setting{Form: commandLine, Text: "--cuda-graph-bs " + spaced(sizes), Note: "sizes count sequences that decode; later versions call it --cuda-graph-bs-decode, and their graphs of prefill, by tokens, --cuda-graph-bs-prefill"}
		},
	},
	{
		name: "tensorrt-llm", decoding: true, sequences: "max_batch_size, 2048",
		chunk: func(m int) Setting {
			return Setting{Form: yamlFile, Text: fmt.Sprintf("enable_chunked_prefill: true\nmax_num_tokens: %d", m)}
		},
		capture: func(sizes []int) Setting {
			return Setting{Form: yamlFile, Text: fmt.Sprintf("cuda_graph_config:\n  enable_padding: true\n  batch_sizes: [%s]", Text(sizes)), Note: "sizes count sequences that decode"}
		},
	},
	{
		name: "llama.cpp",
		chunk: func(m int) Setting {
			return Setting{Form: commandLine, Text: fmt.Sprintf("--batch-size %d --ubatch-size %d", m, m), Note: "a pass computes --ubatch-size tokens; it captures no list of sizes"}
		},
	},
}

// The forms of settings.
const (
	commandLine = "command line"
	yamlFile    = "YAML"
)

// Engines lists the engines whose settings are known.
func Engines() []string {
	names := make([]string, len(engines))
	for i, e := range engines {
		names[i] = e.name
	}
	return names
}

// settings are those of the named engines, all within the limits; no chunk is set where none was found.
func (a *Advice) settings(names []string) []Setting {
	out, chunk := []Setting{}, a.Chunk
	for _, e := range engines {
		if !slices.Contains(names, e.name) {
			continue
		}
		if chunk.M > 0 {
			s := e.chunk(chunk.M)
			s.Engine, s.Advice, s.Gains = e.name, "chunk", chunk.Gains
			out = append(out, s)
		}
		if e.capture != nil {
			sizes := a.Sizes.Captured
			if e.decoding && a.Decoding != nil {
				sizes = a.Decoding
			}
			s := e.capture(sizes)
			s.Engine, s.Advice = e.name, "capture"
			if a.Limits.Sequences == 0 {
				s.Note += "; --max-sequences was not given: " + e.name + " has " + e.sequences + ", and sizes above that do not occur"
			}
			out = append(out, s)
		}
	}
	return out
}

// spaced lists numbers with spaces between.
func spaced(sizes []int) string {
	return strings.ReplaceAll(Text(sizes), ",", "")
}
