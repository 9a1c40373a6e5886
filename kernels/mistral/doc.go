// Package mistral generates text with Mistral and Llama models on the very kernels that
// the audit times, so that a verdict on a product can be followed to the tokens a second
// that it costs.
//
// A [Model] is a checkpoint's weights on a device, plain or as integers with scales. A
// [Session] is one sequence: its ring of keys and values, and the launches that a prompt (in
// whole batches, [Session.Prefill]) and a token ([Session.Decode]) consist of. Every product
// of a prompt goes through the dispatcher in product.go, which consults a lookup table where
// one was given. A token is one CUDA graph where the device has graphs, fused kernels where it
// has those.
//
// The package has no product, attention or other device code of its own: it asks the
// device for launches ([Backend]) and executes them like any block that is timed.
package mistral
