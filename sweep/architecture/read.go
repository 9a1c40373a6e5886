package architecture

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

const maxJSON = 16 << 20

// Error reports why a configuration can't be planned.
type Error = regular.ContentError

// Hints for refused configurations.
const (
	shapesHint  = "give its products with --shape n4096k4096, or add the architecture to sweep/architecture/architectures.yaml"
	unknownHint = "if it changes no weight's shape, remove it from a copy of the file; else give the products with --shape n4096k4096"
	localHint   = "download its config.json and give the path: --model path/to/config.json"
	configHint  = "compare the file with the model's published config.json, or give its products with --shape n4096k4096"
)

var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

// Read reads a config.json, or the one in the folder path. Errors in the content are an [*Error].
func Read(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, "config.json")
		_, err = os.Stat(path)
	}
	if errors.Is(err, fs.ErrNotExist) && hubName.MatchString(path) && filepath.Ext(path) != ".json" {
		return nil,
			&Error{Reason: fmt.Sprintf("%q is no file: it looks like the name of a model at a hub, and a local path is wanted", path),
				Hint: localHint}
	}
	data, err := regular.Read(path, maxJSON)
	if err != nil {
		return nil, err
	}
	m, err := Parse(data)
	var bad *Error
	if errors.As(err, &bad) {
		bad.Path = path
	}
	return m, err
}

// Parse parses the text of a config.json.
func Parse(data []byte) (*Model, error) {
	object, err := readObject(data)
	if err != nil {
		return nil, &Error{Err: err}
	}
	return Of(object)
}

// Of returns the model of a configuration.
func Of(object map[string]any) (*Model, error) {
	t, err := known()
	if err != nil {
		return nil, err
	}
	return t.model("", object, "")
}

// in precedes names of fields in errors.
func (t *table) model(in string, object map[string]any, modelType string) (*Model, error) {
	refuse := func(err error) error {
		hint := configHint
		var unknown *unknownField
		var kind *unknownKind
		switch {
		case errors.As(err, &unknown):
			hint = unknownHint
		case errors.As(err, &kind):
			hint = shapesHint
		}
		var absent missing
		switch {
		case in == "":
		case errors.As(err, &absent):
			err = missing{in + absent.name}
		case unknown != nil:
			unknown.name = in + unknown.name
		default:
			err = fmt.Errorf("%s: %w", strings.TrimSuffix(in, "."), err)
		}
		return &Error{Err: err, Hint: hint}
	}
	if v, ok := object["model_type"].(string); ok {
		modelType = v
	}
	classes, err := texts(object["architectures"])
	if err != nil {
		return nil, refuse(fmt.Errorf("architectures is %s: %w", brief(object["architectures"]), err))
	}
	if modelType == "" {
		if modelType = t.typeOf(classes); modelType == "" {
			return nil, refuse(missing{"model_type"})
		}
	}
	k, head, err := t.find(modelType, classes)
	if err != nil {
		return nil, refuse(err)
	}
	var m *Model
	if field := k.textField(object); field != "" {
		text, ok := object[field].(map[string]any)
		if !ok {
			return nil, refuse(fmt.Errorf("%s is %s: expected an object", field, brief(object[field])))
		}
		if m, err = t.model(in+field+".", text, k.TextType); err != nil {
			return nil, err
		}
		m.head = m.head && head
		if err := m.agrees(object, field); err != nil {
			return nil, refuse(err)
		}
		if err := m.unread(t, object, slices.Concat(k.Harmless, k.Text, m.kind.Harmless), k.Elsewhere); err != nil {
			return nil, refuse(err)
		}
	} else {
		if len(k.Parts) == 0 {
			return nil, refuse(missing{k.Text[0]})
		}
		m = build(t, k, modelType, head, object)
		for _, name := range t.Required[modelType] {
			if _, ok := object[name]; !ok {
				return nil, refuse(missing{name})
			}
		}
		if err := m.check(); err != nil {
			return nil, refuse(err)
		}
		if err := m.unread(t, object, k.Harmless, k.Elsewhere); err != nil {
			return nil, refuse(err)
		}
	}
	if q, ok := object["quantization_config"]; ok && q != nil {
		if m.Stored, err = readStorage(q); err != nil {
			return nil, refuse(fmt.Errorf("quantization_config: %w", err))
		}
	}
	return m, nil
}

// typeOf is the only model_type with such classes, or "".
func (t *table) typeOf(classes []string) string {
	found := ""
	for _, k := range t.Kinds {
		for name, of := range k.Types {
			if len(classes) > 0 && all(classes, func(c string) bool { return slices.Contains(strings.Fields(of), c) }) {
				if found != "" {
					return ""
				}
				found = name
			}
		}
	}
	return found
}

// textField is "" if the object itself holds the language model.
func (k *kind) textField(object map[string]any) string {
	for _, name := range k.Text {
		if object[name] != nil {
			return name
		}
	}
	return ""
}

func texts(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, errors.New("expected a list of names")
	}
	var out []string
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, errors.New("expected a list of names")
		}
		out = append(out, s)
	}
	return out, nil
}
