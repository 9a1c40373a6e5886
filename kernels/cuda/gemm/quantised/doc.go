// Package quantized plans products with weights that are integers with scales. Weights are packed ahead of
// time into records, in the order of the tensor cores' operands. Kernels read each record with one bulk copy,
// or straight into registers for few rows of activations.
package quantised
