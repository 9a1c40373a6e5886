package worker

import "os"

// windowBytes is the size of the window: large enough that copies, not calls, take the time.
const windowBytes = 16 << 20

// window is memory that the program and a worker share, for the contents of buffers.
type window struct {
	file *os.File
	data []byte
}
