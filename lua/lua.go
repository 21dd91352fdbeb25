// Package lua holds the scripts that change counting state in Redis. Each
// stands in a file of its own with its contract on top: key shapes, arguments,
// returns, and what a second run does. Only package counter calls them.
package lua

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed *.lua
var files embed.FS

// The scripts. What several of them share stands once, in facts.lua and
// outbox.lua, and is put in front of those that need it.
var (
	Toggle  = load("facts.lua", "outbox.lua", "toggle.lua")
	Promote = load("promote.lua")
	Fold    = load("facts.lua", "outbox.lua", "fold.lua")
	Recount = load("outbox.lua", "recount.lua")
	Ack     = load("ack.lua")
	Delete  = load("outbox.lua", "delete.lua")
	Mine    = load("mine.lua")
	Lease   = load("lease.lua")
	Renew   = load("renew.lua")
	Release = load("release.lua")
	Restore = load("restore.lua")
	Raise   = load("outbox.lua", "raise.lua")
	Epoch   = load("epoch.lua")
	Fence   = load("fence.lua")
	Chunk   = load("facts.lua", "outbox.lua", "chunk.lua")
)

// All is every script, for who wants them loaded before the first use.
var All = []*Script{Toggle, Promote, Fold, Recount, Ack, Delete, Mine, Lease, Renew, Release, Restore, Raise, Epoch, Fence, Chunk}

// Script is a script's text and the hash by which EVALSHA knows it.
type Script struct{ Text, Hash string }

// load joins files to one script. It panics when one is missing: they are part
// of the binary, so that can only happen to whoever renames one.
func load(names ...string) *Script {
	var source strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		source.Write(text)
	}
	sum := sha1.Sum([]byte(source.String())) //nolint:gosec // see above
	return &Script{Text: source.String(), Hash: hex.EncodeToString(sum[:])}
}
