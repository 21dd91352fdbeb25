package feed

import (
	"bytes"
	_ "embed" // for the demo's posts
	"io"
)

//go:embed demo.jsonl
var demo []byte

// Demo returns the posts that a new system may start with, for Import. Each call
// reads from the beginning.
func Demo() io.Reader { return bytes.NewReader(demo) }
