// Package choose decides which rows a sweep measures next.
package choose
