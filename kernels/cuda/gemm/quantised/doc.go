// Package quantised plans products with weights that are integers with scales. Their kernels
// read weights packed ahead of time into records, in the order in which the tensor cores'
// operands want them: one bulk copy each, or where rows of activations are few straight into
// registers.
package quantised
