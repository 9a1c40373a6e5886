package worker

import (
	"strings"
	"testing"
)

func TestSite(t *testing.T) {
	const crash = `Fatal Python error: Segmentation fault

Thread 0x00007f4cf3ff86c0 (most recent call first):
  File "/home/me/beside.py", line 7 in waits

Current thread 0x00007f4cfe42ab80 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/home/me/venv/lib/python3.11/site-packages/torch/nn.py", line 5 in linear
  File "/home/me/kernels/tile.py", line 61 in reads
  File "/home/me/mine.py", line 19 in product
  File "<gemmaudit_worker/launches.py>", line 75 in first

Extension modules: numpy (total: 1)
`
	for _, c := range []struct{ name, printed, want string }{
		{"nothing", "hello\n", ""},
		{"crash", crash, " at kernels/tile.py:61"},
		{"another file", strings.ReplaceAll(crash, "/home/me/", "/home/you/"), ""},
		{"asked after another stack",
			crash + "Stack (most recent call first):\n  File \"/home/me/mine.py\", line 3 in f\n",
			" at mine.py:3"},
		{"no end", "Current thread 1 (most recent call first):\n  File \"/home/me/mine.py\", line", ""},
		{"outside", "Current thread 1 (most recent call first):\n  File \"/home/me/../mine.py\", line 1 in f", ""},
	} {
		var l lastLines
		l.copy(strings.NewReader(c.printed), nil)
		if got := l.site([]string{"/opt", "/home/me"}); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}
