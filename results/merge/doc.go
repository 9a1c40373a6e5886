// Package merge joins the shards of a sweep into one run, if they measured the same plan.
package merge
