package sweep

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// ReadModel reads a Hugging Face config.json, or the one in the folder path. The
// model's name is that of the folder it lies in.
func ReadModel(path string) (Model, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	sizes, err := checkpoint.ReadSizes(path)
	if err != nil {
		return Model{}, fmt.Errorf("model configuration: %w", err)
	}
	name := filepath.Base(filepath.Dir(path))
	if abs, err := filepath.Abs(path); err == nil {
		name = filepath.Base(filepath.Dir(abs))
	}
	return Model{
		Name: name, Hidden: sizes.Hidden, Intermediate: sizes.Inner, Vocab: sizes.Vocab,
		Heads: sizes.Heads.Query, KVHeads: sizes.Heads.KV, HeadDim: sizes.Heads.Dim, Layers: sizes.Layers,
	}, nil
}
