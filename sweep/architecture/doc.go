// Package architecture plans the weight matrices of a language model from its config.json.
//
// architectures.yaml has the formulas, one entry for each kind of architecture; its header describes the
// fields. The model_type and the architectures of a configuration select the entry. A field that contains a
// number or true may change a shape. It is an error if no formula of the entry reads it and the entry does
// not list it as harmless. [Error] gives a hint.
//
// The shapes of the configurations in testdata equal those of transformers' models: scripts/check_shapes.py
// compares them.
package architecture
