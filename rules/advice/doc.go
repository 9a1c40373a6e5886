// Package advice reckons what an inference engine gains by running a model at other batch sizes:
// the time of a whole pass over M tokens, the sizes that are worth capturing as graphs, those that
// are never worth running, and the chunk of a prefill with the most tokens a second.
//
// # The time of a pass
//
// A pass over M tokens is a sum of parts: each product of the model as often as a pass has it,
// attention where it was swept or imported, and a rest. Nothing is guessed. What was neither swept
// nor imported is listed as missing, and [Coverage] says whether the times are those of the
// products, of the parts that are known, or of the whole pass.
//
// The rest is what measured passes take beyond the parts (see [Measured]): a smooth function of M,
// fitted with least squares to the relative residuals, each weighted by Huber's weights. It is
// a + b·M + c·M² and a piecewise linear function whose bends are held small by a penalty; the penalty
// is chosen by leaving out each measured pass in turn. The parts get a factor, linear in M and held
// near 1: an engine runs at another clock than a sweep, and at its power limit slow sizes lose less
// there. Passes outside of the measured sizes are not foretold.
//
// # Intervals
//
// Times are those of the rules: at the common clock of the sweep. Errors of different series are
// independent and add in squares; a series that serves two products errs alike in both. A clock that
// differs in the engine moves all times together, which no interval of a time without measured
// passes holds, and which gains do not feel. The fit of the rest adds its own covariance, which
// neighbouring sizes share, and what remains of its residuals beyond the errors of parts and
// measurements, which each size has for itself. All intervals are of 95 %.
//
// What is best by uncertain times is not as good as it looks. So the choice is repeated on times drawn
// from their errors, and what it seems to gain there beyond what it gains is taken off, and is part of
// the interval.
//
// # Sizes between those that are known
//
// Nothing is interpolated: advice is about the Ms that were measured or inferred. A batch of any
// other size runs as the next captured one, padded, as engines do.
package advice
