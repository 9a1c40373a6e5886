package advice

import (
	"fmt"
	"slices"
	"strings"
)

// Setting is an engine setting, ready to use.
type Setting struct {
	Engine string `json:"engine"`
	// Advice names the advice that it implements: "chunk" or "capture".
	Advice string `json:"advice"`
	// Form is where it belongs: "command line", or "YAML" of a configuration.
	Form string `json:"form"`
	Text string `json:"text"`
	// Gains reports whether a chunk gains over the usual ones, see [Chunk]; empty for other advice.
	Gains Gains `json:"gains,omitempty"`
	// Note is a remark on it, or "".
	Note string `json:"note,omitempty"`
}

// engine describes an engine's settings. docs/engines.md names the versions and documents. The defaults were
// read in the engines' sources in November 2026:
//
//   - vLLM: EngineArgs.get_batch_defaults in vllm/engine/arg_utils.py. SchedulerConfig's own 128 holds for tests only.
//   - SGLang: ServerArgs.max_running_requests in python/sglang/srt/server_args.py is None, and is computed from the memory.
//   - TensorRT-LLM: BaseLlmArgs.max_batch_size in tensorrt_llm/llmapi/llm_args.py; CUDA graphs go up to 128 by default.
type engine struct {
	name string
	// nil if the engine has no such setting.
	chunk   func(m int) Setting
	capture func(sizes []int) Setting
	// decoding is true if captured sizes count decoding sequences, else tokens.
	decoding bool
	// sequences is the engine's own sequence limit, and its default.
	sequences string
}

var engines = []engine{
	{
		name: "vllm", sequences: "max_num_seqs, 256, or 1024 on a GPU with at least 70 GiB other than an A100",
		chunk: func(m int) Setting {
			return Setting{Form: commandLine, Text: fmt.Sprintf("--max-num-batched-tokens %d", m),
				Note: "decoding tokens in a mixed batch count too"}
		},
		capture: func(sizes []int) Setting {
			return Setting{Form: commandLine, Text: fmt.Sprintf(`--compilation-config '{"cudagraph_capture_sizes": [%s]}'`, Text(sizes)),
				Note: "sizes count tokens; recent versions also take --cudagraph-capture-sizes"}
		},
	},
	{
		name: "sglang", decoding: true, sequences: "max_running_requests, from free memory",
		chunk: func(m int) Setting {
			return Setting{Form: commandLine, Text: fmt.Sprintf("--chunked-prefill-size %d", m)}
		},
		capture: func(sizes []int) Setting {
			return Setting{Form: commandLine, Text: "--cuda-graph-bs " + spaced(sizes),
				Note: "sizes count decoding sequences; later versions call it --cuda-graph-bs-decode, and prefill graphs, in tokens, " +
					"--cuda-graph-bs-prefill"}
		},
	},
	{
		name: "tensorrt-llm", decoding: true, sequences: "max_batch_size, 2048",
		chunk: func(m int) Setting {
			return Setting{Form: yamlFile, Text: fmt.Sprintf("enable_chunked_prefill: true\nmax_num_tokens: %d", m)}
		},
		capture: func(sizes []int) Setting {
			return Setting{Form: yamlFile,
				Text: fmt.Sprintf("cuda_graph_config:\n  enable_padding: true\n  batch_sizes: [%s]", Text(sizes)),
				Note: "sizes count decoding sequences"}
		},
	},
	{
		name: "llama.cpp",
		chunk: func(m int) Setting {
			return Setting{Form: commandLine, Text: fmt.Sprintf("--batch-size %d --ubatch-size %d", m, m),
				Note: "a pass computes --ubatch-size tokens; llama.cpp has no list of graph sizes"}
		},
	},
}

// The forms of settings.
const (
	commandLine = "command line"
	yamlFile    = "YAML"
)

// Engines lists the engines with known settings.
func Engines() []string {
	names := make([]string, len(engines))
	for i, e := range engines {
		names[i] = e.name
	}
	return names
}

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

func spaced(sizes []int) string {
	return strings.ReplaceAll(Text(sizes), ",", "")
}
