package embedded

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// Lock makes sure that one process at a time uses the data folder, and makes
// the folder if need be. The lock goes with the process, however that ends.
func Lock(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("another Tallyfeed is running on the data folder %s: stop it, or choose another with --data", dir)
	}
	return lock.Close, nil
}

const (
	secretName  = "secret"
	secretBytes = 32
)

// Secret returns the secret that tokens of the embedded default are made with,
// as text. The first call in a folder makes it; the file is the owner's alone.
func Secret(dir string) ([]byte, error) {
	file := filepath.Join(dir, secretName)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newSecret(dir, file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if raw, err := base64.RawURLEncoding.DecodeString(secret); err != nil || len(raw) < secretBytes {
		return nil, fmt.Errorf("%s holds no secret: delete it, and a new one is made (tokens made with the old one end)", file)
	}
	return []byte(secret), nil
}

// newSecret writes a whole file under another name first, so that a kill leaves
// no half one; linking it fails if another process was quicker.
func newSecret(dir, file string) (secret []byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the secret: %w", err)
	}
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails
	text := base64.RawURLEncoding.EncodeToString(raw)

	temporary, err := os.CreateTemp(dir, secretName+"-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make the secret: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.WriteString(text + "\n")
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return nil, fmt.Errorf("make the secret: %w", err)
	}
	if err := os.Link(temporary.Name(), file); errors.Is(err, fs.ErrExist) {
		return Secret(dir)
	} else if err != nil {
		return nil, fmt.Errorf("make the secret: %w", err)
	}
	return []byte(text), nil
}
