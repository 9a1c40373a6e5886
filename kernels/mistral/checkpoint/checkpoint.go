package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// The files of a model folder.
const (
	configFile     = "config.json"
	generationFile = "generation_config.json"
	singleFile     = "model.safetensors"
	indexFile      = "model.safetensors.index.json"
)

// Checkpoint is an open model folder. Its methods except [Checkpoint.Close] may be called concurrently.
type Checkpoint struct {
	dir     string
	config  Config
	files   []*file
	tensors map[string]*file // the file of each tensor
}

// Open opens a model folder: config.json, and model.safetensors or else the shards of
// model.safetensors.index.json. generation_config.json takes precedence for the tokens that end a text, as in
// transformers. Before reading any weights, Open checks that exactly the config's weights exist with the
// right shapes. Errors are [*Error].
func Open(dir string) (*Checkpoint, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, regular.SystemError(dir, "can't be opened", err)
	case !info.IsDir():
		return nil, &Error{Path: dir, Reason: "not a folder", Hint: "give the folder that holds " + configFile}
	}
	config, err := ReadConfig(filepath.Join(dir, configFile))
	if err != nil {
		return nil, err
	}
	if err := readGeneration(filepath.Join(dir, generationFile), &config); err != nil {
		return nil, err
	}
	c := &Checkpoint{dir: dir, config: config, tensors: map[string]*file{}}
	if err = c.open(); err == nil {
		err = c.checkWeights()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	if c.config.DType == "" {
		c.config.DType = readable[c.tensors[embedding].tensors[embedding].dtype]
	}
	return c, nil
}

// readGeneration reads the first and last tokens of a text from generation_config.json, which may be missing.
func readGeneration(path string, c *Config) error {
	data, err := regular.Read(path, maxJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	f := readFields(path, "", data)
	for _, name := range []string{"bos_token_id", "eos_token_id"} {
		if string(f.left[name]) == "null" {
			delete(f.left, name) // config.json's holds
		}
	}
	readTokens(f, c)
	return f.err
}

func (c *Checkpoint) open() error {
	single := filepath.Join(c.dir, singleFile)
	if _, err := os.Stat(single); err == nil {
		return c.add(single)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return regular.SystemError(single, "can't be opened", err)
	}
	path := filepath.Join(c.dir, indexFile)
	data, err := regular.Read(path, maxJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return &Error{Path: c.dir, Reason: "neither " + singleFile + " nor " + indexFile + " is there", Hint: otherWeights(c.dir)}
	} else if err != nil {
		return err
	}
	shards, err := parseIndex(path, data)
	if err != nil {
		return err
	}
	for _, shard := range slices.Sorted(maps.Keys(set(slices.Collect(maps.Values(shards))...))) {
		if err := c.add(filepath.Join(c.dir, shard)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		in, shard := c.tensors[name], shards[name]
		switch {
		case in == nil:
			return &Error{Path: filepath.Join(c.dir, shard), Tensor: name, Reason: "not there, though " + indexFile + " says so"}
		case filepath.Base(in.path) != shard:
			return &Error{Path: in.path, Tensor: name, Reason: fmt.Sprintf("in the wrong shard: %s says %s", indexFile, shard)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.tensors)) {
		if _, listed := shards[name]; !listed {
			return &Error{Path: c.tensors[name].path, Tensor: name, Reason: indexFile + " does not list it"}
		}
	}
	return nil
}

func (c *Checkpoint) add(path string) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	for name := range f.tensors {
		if before, twice := c.tensors[name]; twice {
			return &Error{Path: path, Tensor: name, Reason: "also in " + filepath.Base(before.path)}
		}
		c.tensors[name] = f
	}
	return nil
}

// parseIndex reads each tensor's shard. Shards must be in the same folder.
func parseIndex(path string, data []byte) (map[string]string, error) {
	var index struct {
		Weights map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, refusef(path, "not an index of shards: %v", err)
	}
	if len(index.Weights) == 0 {
		return nil, refusef(path, "not an index of shards: weight_map is missing or empty")
	}
	for _, name := range slices.Sorted(maps.Keys(index.Weights)) {
		shard := index.Weights[name]
		if shard == "" || shard == "." || strings.ContainsAny(shard, `/\`) || !filepath.IsLocal(shard) {
			return nil, &Error{Path: path, Tensor: name, Reason: fmt.Sprintf("shard %q is not the name of a file in the folder", shard)}
		}
	}
	return index.Weights, nil
}

func otherWeights(dir string) string {
	for pattern, format := range map[string]string{"consolidated*": "the format of the model's maker", "*.bin": "PyTorch's format",
		"*.gguf": "GGUF"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			return fmt.Sprintf("%s is in %s; save the model with transformers' save_pretrained", filepath.Base(found[0]), format)
		}
	}
	return ""
}

func (c *Checkpoint) checkWeights() error {
	known := map[string]bool{}
	for _, w := range c.config.Weights() {
		if len(w.Shape) == 2 && c.isFP8(w.Name) {
			names, err := c.checkFP8(w.Name, w.Shape[0], w.Shape[1])
			if err != nil {
				return err
			}
			maps.Copy(known, set(names...))
			continue
		}
		if len(w.Shape) == 2 && c.isPacked(w.Name) {
			names, err := c.checkPacked(w.Name, w.Shape[0], w.Shape[1])
			if err != nil {
				return err
			}
			maps.Copy(known, set(names...))
			continue
		}
		known[w.Name] = true
		if _, err := c.find(w.Name, w.Shape); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.tensors)) {
		// Early conversions stored the rotary frequencies, which the config determines. Tied models may
		// contain a copy of the embedding table.
		if known[name] || strings.HasSuffix(name, ".rotary_emb.inv_freq") || name == output && c.config.Tied {
			continue
		}
		return &Error{Path: c.tensors[name].path, Tensor: name,
			Reason: fmt.Sprintf("a %s model of this config has none of this name", c.config.ModelType)}
	}
	return nil
}

func layerPrefix(layer int) string { return fmt.Sprintf("model.layers.%d.", layer) }

// Dir returns the folder.
func (c *Checkpoint) Dir() string { return c.dir }

// Config returns the contents of config.json.
func (c *Checkpoint) Config() Config { return c.config }

// Tensor returns a tensor by its full name and checks its shape. Quantized weights are dequantized to fp32 in
// new memory. The error is an [*Error] that names the tensor, what was found and what was expected.
func (c *Checkpoint) Tensor(name string, shape ...int) (Tensor, error) {
	switch {
	case len(shape) == 2 && c.isFP8(name):
		return c.denseFP8(name, shape[0], shape[1])
	case len(shape) != 2 || !c.isPacked(name):
		return c.find(name, shape)
	}
	q, err := c.Quantized(name, shape[0], shape[1])
	if err != nil {
		return Tensor{}, err
	}
	return q.Dense()
}

func (c *Checkpoint) shaped(name string, shape []int) (entry, error) {
	f := c.tensors[name]
	if f == nil {
		return entry{}, &Error{Path: c.dir, Tensor: name, Reason: fmt.Sprintf("missing, expected shape %v", shape)}
	}
	e, ok := f.tensors[name]
	if !ok {
		return entry{}, &Error{Path: f.path, Tensor: name, Reason: "asked for after the checkpoint was closed"}
	}
	if !slices.Equal(e.shape, shape) {
		return entry{}, &Error{Path: f.path, Tensor: name, Reason: fmt.Sprintf("shape %v, expected %v", e.shape, shape)}
	}
	return e, nil
}

func (c *Checkpoint) find(name string, shape []int) (Tensor, error) {
	e, err := c.shaped(name, shape)
	if err != nil {
		return Tensor{}, err
	}
	f := c.tensors[name]
	dtype, ok := readable[e.dtype]
	if !ok {
		return Tensor{}, &Error{Path: f.path, Tensor: name, Reason: fmt.Sprintf("of type %q, expected F32, F16 or BF16", e.dtype)}
	}
	return Tensor{Name: name, DType: dtype, Shape: slices.Clone(e.shape), Data: e.data, path: f.path}, nil
}

// Close unmaps the files. Reading tensor data afterwards crashes the process. A second Close does nothing.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.close())
	}
	c.files = nil
	return errors.Join(errs...)
}

// Tensor is a tensor of an open checkpoint.
type Tensor struct {
	Name  string
	DType kernels.DType // fp32, fp16 or bf16
	Shape []int
	// Data are the elements, little-endian, row-major and unaligned: read-only file memory, valid until
	// [Checkpoint.Close], except for dequantized weights.
	Data []byte

	path string
}
