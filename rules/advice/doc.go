// Package advice computes what an inference engine gains from other batch sizes: the time of a whole pass
// over M tokens, the sizes worth capturing as graphs, sizes never worth running, and the prefill chunk with
// the most tokens per second.
//
//	# The time of a pass
//
// A pass over M tokens is a sum of parts: each product of the model times its count, attention if it was
// swept or imported, and a rest. Parts that were neither swept nor imported are listed as missing. [Coverage]
// says whether the times include the products, the known parts, or the whole pass.
//
// A product may be measured with the epilogue of its layer, such as the residual. Layers of the same shape take the series with
// their own epilogue each, else the product alone, else the only other series. Warnings name such products. A pass of plain products
// has none of the epilogues; they are part of the rest.
//
// The rest is the difference of measured passes and their parts (see [Measured]). It is a smooth function of
// M, fitted by least squares to the relative residuals with Huber's weights: a + b·M + c·M² plus a piecewise
// linear function with penalized bends. Leave-one-out cross-validation selects the penalty. The parts get a
// factor, linear in M and held near 1: an engine's clock differs from a sweep's, and at its power limit slow
// sizes lose less. Passes outside of the measured sizes are not predicted.
//
//	# Intervals
//
// Times are those of the rules: at the common clock of the sweep. Errors of different series are independent
// and add in squares; a series that serves two products has the same error in both. A different clock in the
// engine changes all times together. Intervals of times without measured passes do not include this, and
// gains are unaffected by it. The fit of the rest adds its covariance, which neighboring sizes share. It also
// adds the residual scatter beyond the errors of parts and measurements, which is independent per size. All
// intervals have 95 % confidence.
//
// The minimum of noisy times looks better than it is. The choice is therefore repeated on times drawn from
// their errors. The apparent excess gain there is subtracted, and is part of the interval.
//
//	# Sizes between the known ones
//
// Sizes are never interpolated: advice is about the Ms that were measured or inferred. A batch of any other
// size runs at the next captured one, padded, as in engines.
package advice
