// Package phrase writes numbers and names the way the sentences of findings print them.
package phrase
