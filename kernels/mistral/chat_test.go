package mistral

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/mistral/tokenizer"
)

// A prompt must hold all messages and answers so far, and drop the oldest if they do not fit.
func TestChatKeepsHistory(t *testing.T) {
	words, err := tokenizer.Open(filepath.FromSlash("tokenizer/testdata/normalizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	c := NewChat(words, instForm, []int{2})
	first := c.Ask("one", 1000)
	if want := append(words.Encode(""), words.EncodeOrdinary("[INST] one [/INST]")...); !slices.Equal(first, want) {
		t.Errorf("%v, want %v", first, want)
	}
	c.Answered([]int32{7, 8})
	second := c.Ask("two", 1000)
	want := slices.Concat(first, []int32{7, 8, 2}, words.EncodeOrdinary("[INST] two [/INST]"))
	if !slices.Equal(second, want) {
		t.Errorf("%v, want %v", second, want)
	}
	c.Answered([]int32{9})
	third := c.Ask("three", len(second)) // room for two of three
	if len(third) > len(second) ||
		!slices.Equal(third[len(third)-len(words.EncodeOrdinary("[INST] three [/INST]")):], words.EncodeOrdinary("[INST] three [/INST]")) ||
		slices.Equal(third[:len(first)], first) {
		t.Errorf("%v", third)
	}
	if got := c.Ask("much too long", 3); got != nil {
		t.Errorf("%v of 3 tokens", got)
	}
}

// The template must be found in any file, with Mistral's form as the default.
func TestChatForms(t *testing.T) {
	for name, c := range map[string]struct {
		file, text, before string
	}{
		"none":    {"", "", "[INST] "},
		"mistral": {"tokenizer_config.json", `{"chat_template": "{{ bos_token }}[INST] {{ m }} [/INST]"}`, "[INST] "},
		"llama 3": {"tokenizer_config.json", `{"chat_template": "<|start_header_id|>{{ role }}"}`,
			"<|start_header_id|>user<|end_header_id|>\n\n"},
		"chatml":   {"chat_template.jinja", "<|im_start|>{{ role }}", "<|im_start|>user\n"},
		"no entry": {"tokenizer_config.json", `{"eos_token": "</s>"}`, "[INST] "},
	} {
		dir := t.TempDir()
		if c.file != "" {
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if form, err := FindChatForm(dir, os.ReadFile); err != nil || form.Before != c.before {
			t.Errorf("%s: %+v, %v", name, form, err)
		}
	}
}
