// Package trust counts wrong verdicts. It runs the sweep and the rules on machines of package simulated,
// whose true times are known. It counts false anomalies and findings, slow rows called clean, the loss from
// which slow rows are found, and remedies without gain. It also counts contradictions between two audits of
// one machine, and between an interrupted sweep and the full one.
//
// A machine has two kernels, a library and one of ours, at n4096 k4096 in bf16, with 61 values of M each:
// memory-bound below, compute-bound above. Each kernel has three slow intervals of [Depths], one of them of
// [PromisedDepth]. A machine is audited cold and hot, each time with a sweep of up to 35 rounds and a
// confirmation.
//
// A row's true loss is taken at the run's reference clock. A bimodal row is slow if its faster mode is, fine
// if its slower mode is, and else neither. Every rate has an upper 95 % limit (Clopper–Pearson), which is
// compared with its bound.
package trust
