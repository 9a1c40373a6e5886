// Package architecture plans the weight matrices of a language model from its config.json.
//
// architectures.yaml has the formulas, one entry for each kind of architecture; its head describes the
// fields. The model_type and the architectures of a configuration decide which entry holds. A field
// that has a number, or is true, and that no formula of the entry reads is an error unless the entry
// lists it as harmless: it may change a shape. [Error] says what to do.
//
// The shapes of the configurations in testdata equal those of transformers' models:
// scripts/check_shapes.py compares them.
package architecture
