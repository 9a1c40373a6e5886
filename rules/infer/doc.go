// Package infer estimates the time of every row of a run: from its samples, at a common clock and without the
// drift of the machine, or if it was not measured, from rows that the same kernel runs.
//
// # Families
//
// In a series that is inferred ([Data.Asked]) only some rows are measured. A family is the rows that one
// kernel runs, wherever they lie in M. The kernel of each row comes from [Data.Choices], or if that is
// missing, from the kernels that ran on both sides of it.
//
//   - The line of a family is the combination of (1, waves rounded up, tiles, M) with factors
//     of at least 0 that fits its measured rows best, robustly. It includes the memory floor: a
//     product's bytes are a constant and a share of M. If the tile is unknown, the line is one in
//     (1, M) over an octave of M.
//   - Residuals are alike for rows that are near each other in M and waves. A row that was not
//     measured is predicted by the line and the residuals of its nearest measured rows (kriging).
//     Its interval includes the uncertainty of the terms, the family's scatter, the noise of those
//     rows, and their distance. The scatter is estimated by leaving measured rows out, and shrunk
//     towards that of all families.
//   - If it is unknown which side of a tile lies along M, or how many tiles run at once, the
//     layout that predicts measured rows best is used.
//   - A measured row far off its prediction does not affect its neighbors' predictions.
//   - [Asking.Seeds] and [Curve.Wanting] choose the rows: first the ends of each family and the least certain rows
//     between them. Then it adds rows until the time of each row is known to 0.5 %, or where
//     noise is large to 1.5 times the uncertainty of measured rows. It also adds rows that decide
//     a verdict.
//   - Check rows, 2 % drawn with the seed, 6 % if the kernels were not known, are compared with
//     their predictions ([Inference]). A family with too many of them outside their 95 % interval,
//     or with one far outside, is measured row by row; until then it infers no row. If the kernels
//     were not known, this applies to the whole series.
package infer
