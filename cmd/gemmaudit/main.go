// Command gemmaudit checks whether each matrix product runs as fast as this machine can compute it, verifies
// slow ones by measuring them again, and writes the remedies as a table that an inference engine can load.
//
// The program is a function of its arguments, streams and environment. [Main] returns the exit code. Commands
// access the machine (devices, clock, signals) through the app value. Each command is one file. Data goes to
// stdout, everything else to stderr.
package main

import (
	"os"
)

func main() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)) }
