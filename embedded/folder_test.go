package embedded_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tallyfeed/tallyfeed/embedded"
)

func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "data")
	release, err := embedded.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode: %v, %v", info.Mode(), err)
	}
	_, err = embedded.Lock(dir)
	if err == nil || !strings.Contains(err.Error(), "another Tallyfeed is running") || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second lock: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = embedded.Lock(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	// Who comes at the same time gets the same one.
	secrets := make([][]byte, 8)
	var callers sync.WaitGroup
	for i := range secrets {
		callers.Go(func() {
			secret, err := embedded.Secret(dir)
			if err != nil {
				t.Error(err)
			}
			secrets[i] = secret
		})
	}
	callers.Wait()
	for _, secret := range secrets {
		if !bytes.Equal(secret, secrets[0]) {
			t.Errorf("two secrets of one folder: %q, %q", secret, secrets[0])
		}
	}
	if raw, err := base64.RawURLEncoding.DecodeString(string(secrets[0])); err != nil || len(raw) < 32 {
		t.Errorf("secret of %d bytes, %v", len(raw), err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files left: %v, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode: %v, %v", info.Mode(), err)
	}
}

func TestSecretSpoilt(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"Empty":     "",
		"Short":     base64.RawURLEncoding.EncodeToString(make([]byte, 31)),
		"NotBase64": strings.Repeat("?", 64),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if secret, err := embedded.Secret(dir); err == nil {
				t.Errorf("took %q as a secret", secret)
			}
		})
	}
}
