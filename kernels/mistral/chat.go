package mistral

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/mistral/tokenizer"
)

// TemplateError is a chat template that can't be used.
type TemplateError struct{ Path, Reason string }

func (e *TemplateError) Error() string { return e.Path + ": " + e.Reason }

// ChatForm is a model's message format: Before and After enclose the user's message, End follows the answer.
type ChatForm struct{ Before, After, End string }

// chatForms are identified by a token in the template.
var chatForms = []struct {
	token string
	ChatForm
}{
	{"<|start_header_id|>", ChatForm{"<|start_header_id|>user<|end_header_id|>\n\n",
		"<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"}},
	{"<|im_start|>", ChatForm{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n"}},
	{"[INST]", instForm},
}

// instForm is Mistral's format; its End is the end-of-text token, which models name by ID.
var instForm = ChatForm{Before: "[INST] ", After: " [/INST]"}

// FindChatForm returns the format of a model's chat template, Mistral's for a folder without one. read returns a
// file's text. A template that can't be used is a [TemplateError].
func FindChatForm(dir string, read func(path string) ([]byte, error)) (ChatForm, error) {
	template, path, err := chatTemplate(dir, read)
	if err != nil || template == "" {
		return instForm, err
	}
	for _, f := range chatForms {
		if strings.Contains(template, f.token) {
			return f.ChatForm, nil
		}
	}
	return ChatForm{}, &TemplateError{path, "the chat template has none of the forms that chat knows: [INST], Llama 3, ChatML"}
}

func chatTemplate(dir string, read func(path string) ([]byte, error)) (template, path string, err error) {
	path = filepath.Join(dir, "chat_template.jinja")
	switch text, err := read(path); {
	case err == nil:
		return string(text), path, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", path, err
	}
	path = filepath.Join(dir, "tokenizer_config.json")
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", path, nil
	}
	if err != nil {
		return "", path, err
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return "", path, &TemplateError{path, err.Error()}
	}
	if len(config.Template) == 0 || json.Unmarshal(config.Template, &template) == nil {
		return template, path, nil
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(config.Template, &named); err != nil {
		return "", path, &TemplateError{path, "chat_template: expected a text or a list of templates"}
	}
	for _, t := range named {
		if t.Name == "default" {
			template = t.Template
		}
	}
	return template, path, nil
}

// Chat is a conversation as tokens.
type Chat struct {
	Words *tokenizer.Tokenizer
	form  ChatForm
	start []int32 // before everything else
	end   []int32 // behind an answer
	turns [][]int32
}

// NewChat begins a conversation; eos holds the tokens that end an answer.
func NewChat(words *tokenizer.Tokenizer, form ChatForm, eos []int) *Chat {
	c := &Chat{Words: words, form: form, start: words.Encode("")}
	if form.End != "" {
		c.end = words.EncodeOrdinary(form.End)
	} else if len(eos) > 0 {
		c.end = []int32{int32(eos[0])}
	}
	return c
}

// Ask adds a message and returns the prompt: as much of the chat as fits in limit tokens, or nil if the
// message alone does not fit.
func (c *Chat) Ask(message string, limit int) []int32 {
	c.turns = append(c.turns, c.Words.EncodeOrdinary(c.form.Before+message+c.form.After))
	length := func() (n int) {
		for _, t := range c.turns {
			n += len(t)
		}
		return len(c.start) + n
	}
	for length() > limit {
		if c.turns = c.turns[1:]; len(c.turns) == 0 {
			return nil
		}
	}
	prompt := append([]int32{}, c.start...)
	for _, t := range c.turns {
		prompt = append(prompt, t...)
	}
	return prompt
}

// Answered adds the answer to the last message.
func (c *Chat) Answered(tokens []int32) {
	last := &c.turns[len(c.turns)-1]
	*last = append(append(*last, tokens...), c.end...)
}

// End is the token that ends an answer, for a format that has one.
func (c *Chat) End() int32 { return c.end[0] }
