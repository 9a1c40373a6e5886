// Package timing times families' candidate plans on a GPU, as input for fitting a card's constants.
package timing
