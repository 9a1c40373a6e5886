// Package quantised plans products with weights that are integers with scales. Their kernels
// read weights packed ahead of time into records, one bulk copy each, in the order in which the
// tensor cores' operands want them.
package quantised
