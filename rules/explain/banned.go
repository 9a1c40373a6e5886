package explain

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"
)

//go:embed banned.yaml
var bannedSource []byte

// Banned is a word that help texts and messages do not use, with the words to use instead.
type Banned struct {
	Word string `yaml:"word"` // | separates forms
	Use  string `yaml:"use"`

	match *regexp.Regexp
}

// In is the form of the word that a text has, empty for none.
func (b Banned) In(text string) string { return b.match.FindString(text) }

// BannedWords reads the list.
func BannedWords() ([]Banned, error) {
	var words []Banned
	decoder := yaml.NewDecoder(bytes.NewReader(bannedSource))
	decoder.KnownFields(true)
	if err := decoder.Decode(&words); err != nil {
		return nil, fmt.Errorf("banned words: %w", err)
	}
	for i := range words {
		match, err := regexp.Compile(`(?i)(?:^|[^\w-])(` + words[i].Word + `)(?:[^\w-]|$)`)
		if err != nil {
			return nil, fmt.Errorf("banned words: %w", err)
		}
		words[i].match = match
	}
	return words, nil
}
