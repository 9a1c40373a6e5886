// Package mistral generates text with Mistral, Mixtral and Llama models, using the same kernels that the audit times.
// A verdict on a product thus translates into tokens per second.
//
// A [Model] is a checkpoint's weights on a device, unquantized or as integers with scales. A [Session] is one
// sequence: its ring buffer of keys and values, and the launches of a prompt (in batches, [Session.Prefill])
// and of a token ([Session.Decode]). Every product of a prompt goes through the dispatcher in product.go,
// which consults a lookup table if there is one. A token is one CUDA graph if the device has graphs, with
// fused kernels if available. A CPU has none: fused gates save 1.5 % of one product at 512 tokens
// and nothing beyond noise at fewer, fused residuals nothing, by BenchmarkFusedLayer of kernels/cpu.
//
// With experts, a layer's products depend on its router. The host reads the router's logits, sorts the rows by expert, runs the
// products of the experts that have rows, and adds up their outputs, on every device. Other experts are not read. Such a pass
// is several blocks of launches.
//
// The package has no device code: it asks the device for launches ([Backend]) and executes them like any
// timed block.
package mistral
