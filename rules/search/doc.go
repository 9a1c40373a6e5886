// Package search finds the cheapest way to write a size as a sum of measured sizes.
package search
