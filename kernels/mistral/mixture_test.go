package mistral_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// mixtures are the models with experts in testdata, see scripts/make_expert_fixtures.py. Their names have the experts and the
// experts per token.
var mixtures = []string{"mixtral-8x2", "mixtral-8x2-window", "mixtral-8x2-int4", "mixtral-4x1", "mixtral-4x4", "mixtral-6x3",
	"mixtral-16x2", "mixtral-16x4"}

type mixture struct {
	*checkpoint.Checkpoint
	prompt []int32
	want   [][]float64 // transformers' logits in float64
}

func openMixture(t testing.TB, name string) *mixture {
	t.Helper()
	return openMixtureIn(t, name, filepath.Join("testdata", name))
}

// openMixtureIn opens a changed copy of a model.
func openMixtureIn(t testing.TB, name, dir string) *mixture {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var stored struct {
		Prompt []int32
		Logits []byte
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	f := &mixture{prompt: stored.Prompt}
	if f.Checkpoint, err = checkpoint.Open(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	vocab := f.Config().Vocab
	for i := range f.prompt {
		row := make([]float64, vocab)
		for j := range row {
			row[j] = math.Float64frombits(binary.LittleEndian.Uint64(stored.Logits[8*(i*vocab+j):]))
		}
		f.want = append(f.want, row)
	}
	return f
}

func loadMixture(t testing.TB, d kernels.Device, f *mixture, o mistral.Options) *mistral.Model {
	t.Helper()
	m, err := mistral.Load(t.Context(), d, f.Checkpoint, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// promptLogits returns the logits of all tokens, computed in batches.
func promptLogits(t testing.TB, m *mistral.Model, tokens []int32, batch int) [][]float32 {
	t.Helper()
	s := session(t, m, mistral.SessionOptions{Positions: len(tokens), Batch: batch})
	vocab := m.Config().Vocab
	var out [][]float32
	err := s.All(t.Context(), tokens, func(_ int, logits []float32) error {
		for row := range slices.Chunk(logits, vocab) {
			out = append(out, slices.Clone(row))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// changed copies a model of one file and changes the tensors of its header, by name, or their data.
func changed(t testing.TB, name string, rename func(string) string, data func(tensor string, data []byte)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.Uint64(content)
	header, body := map[string]json.RawMessage{}, content[8+size:]
	if err := json.Unmarshal(content[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	renamed := map[string]json.RawMessage{}
	for tensor, info := range header {
		var at struct {
			Offsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(info, &at); err == nil && tensor != "__metadata__" && data != nil {
			data(tensor, body[at.Offsets[0]:at.Offsets[1]])
		}
		if tensor != "__metadata__" && rename != nil {
			tensor = rename(tensor)
		}
		renamed[tensor] = info
	}
	text, err := json.Marshal(renamed)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, bytes.Repeat([]byte(" "), (8-len(text)%8)%8)...)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	if err := os.WriteFile(path, append(append(out, text...), body...), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
