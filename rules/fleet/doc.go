// Package fleet compares cards of one model over many machines: which of them is not like the others, in which way, since when, and
// by how much.
//
// Runs come one after the other, are reduced at once to a level for each case, and are not kept: see [Collector]. All arithmetic is on
// logs of times. A run of a card is a process; a card is on a host. What they scatter by, each for itself, and what the
// whole fleet does over time are estimated together, from cards that are like the others; each card is then held against its peers,
// which it has no say in. Peers are cards of the same model with the same software and limits. Where these differ, that is compared first.
//
// Several questions are asked of each card: as a whole at the common clock, as a whole in sustained time, where memory
// binds, and in each family of cases. The smallest of its p-values, weighed, is its own, and the false discovery rate is held over cards
// (Benjamini–Hochberg): of the cards that are named a share of at most [Settings.Level] is like the others.
package fleet
