// Table prints the table of a file of BenchmarkReach. It needs no GPU.
//
//	go run ./kernels/cuda/reach/table reach.jsonl
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns the exit code: 2 for invalid arguments, 1 for an unreadable file.
func run(args []string, stdout, stderr io.Writer) int {
	const usage = "usage: table REACH.jsonl\n\nPrints the table of a file of BenchmarkReach again.\n"
	switch {
	case len(args) == 1 && (args[0] == "-h" || args[0] == "--help"):
		fmt.Fprint(stdout, usage)
		return 0
	case len(args) != 1:
		fmt.Fprintf(stderr, "table: %d files, expected one\n%s", len(args), usage)
		return 2
	}
	f, err := os.Open(args[0])
	if err != nil {
		fmt.Fprintf(stderr, "table: %v\n", err)
		return 1
	}
	defer f.Close()
	h, rows, err := reach.Read(f)
	if err == nil {
		err = reach.Print(stdout, h, rows)
	}
	if err != nil {
		fmt.Fprintf(stderr, "table: %s: %v\n", args[0], err)
		return 1
	}
	return 0
}
