// Package fleet compares cards of one model over many machines: which card differs from the others, how,
// since when, and by how much.
//
// Runs arrive one by one, are reduced at once to a level per case, and are not kept: see [Collector]. All
// arithmetic is on log times. A run of a card is a process; a card is on a host. The variation of each, and
// the drift of the whole fleet over time, are estimated together from the normal cards. Each card is then
// compared with its peers, excluding itself. Peers are cards of the same model with the same software and
// limits. Differences in these are compared first.
//
// Each card is tested in several ways: as a whole at the common clock, as a whole in sustained time, where
// memory-bound, and in each family of cases. A card's p-value is the smallest weighted one. The false
// discovery rate is controlled over cards (Benjamini–Hochberg): at most a share [Settings.Level] of the
// flagged cards is normal.
package fleet
