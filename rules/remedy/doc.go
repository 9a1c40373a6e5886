// Package remedy searches what makes a row faster, and proves it by executing it as an engine would.
package remedy
