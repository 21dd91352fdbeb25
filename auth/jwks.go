package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

const (
	keysTimeout = 2 * time.Second
	maxKeysSize = 1 << 20 // bytes
)

// keySet holds the keys that an issuer publishes. keyfunc picks the key for a
// token. Fetching is done here because keyfunc's own, once it has failed at
// start, waits for its next hourly turn, and reads an answer of any length.
type keySet struct {
	url    string
	client *http.Client
	every  time.Duration
	retry  time.Duration

	current atomic.Pointer[keyfunc.Keyfunc] // nil until the first success

	// turn is held by who fetches; it guards what follows.
	turn      chan struct{}
	attempted time.Time
	lastErr   error
}

func newKeySet(config Config) (*keySet, error) {
	address, err := url.Parse(config.JWKSURL)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		return nil, fmt.Errorf("JWKS URL %q is not an http(s) URL", config.JWKSURL)
	}
	k := &keySet{
		url:    config.JWKSURL,
		client: &http.Client{Timeout: keysTimeout},
		every:  config.KeysEvery,
		retry:  config.KeysRetry,
		turn:   make(chan struct{}, 1),
	}
	if k.every <= 0 {
		k.every = 5 * time.Minute
	}
	if k.retry <= 0 {
		k.retry = 5 * time.Second
	}
	return k, nil
}

// run reads the keys again and again until ctx ends. Keys once read are kept
// while the issuer can't be reached.
func (k *keySet) run(ctx context.Context) {
	for {
		wait := k.every
		if k.current.Load() == nil {
			wait = k.retry
		}
		select {
		case <-time.After(wait):
			_ = k.refresh(ctx) // ready tells
		case <-ctx.Done():
			return
		}
	}
}

func (k *keySet) ready() error {
	if k.current.Load() == nil {
		return ErrUnavailable
	}
	return nil
}

// find returns the key or keys for a token. When it knows none it reads the keys
// again, since they may have been rotated, but not more often than retry allows:
// anybody can make up a token with an unknown key.
func (k *keySet) find(ctx context.Context, token *jwt.Token) (any, error) {
	key, err := k.lookUp(ctx, token)
	if err == nil || !errors.Is(err, jwkset.ErrKeyNotFound) && !errors.Is(err, ErrUnavailable) {
		return key, err
	}
	if err := k.refresh(ctx); err != nil {
		return nil, err
	}
	return k.lookUp(ctx, token)
}

func (k *keySet) lookUp(ctx context.Context, token *jwt.Token) (any, error) {
	current := k.current.Load()
	if current == nil {
		return nil, ErrUnavailable
	}
	return (*current).KeyfuncCtx(ctx)(token)
}

// refresh reads the keys, unless that was tried less than retry ago: then it
// returns what came of that. Its errors are ErrUnavailable. A caller that gives
// up leaves at once, and the reading goes on for the others that wait for it.
func (k *keySet) refresh(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return ErrUnavailable
	}
	if !k.attempted.IsZero() && time.Since(k.attempted) < k.retry {
		defer func() { <-k.turn }()
		return k.lastErr
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-k.turn }()
		done <- k.read(context.WithoutCancel(ctx))
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ErrUnavailable
	}
}

// read is one attempt, by who holds the turn.
func (k *keySet) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	fetched, err := k.fetch(ctx)
	k.attempted, k.lastErr = time.Now(), nil
	if err != nil {
		k.lastErr = fmt.Errorf("%w: %w", ErrUnavailable, err)
		return k.lastErr
	}
	k.current.Store(&fetched)
	return nil
}

func (k *keySet) fetch(ctx context.Context) (keyfunc.Keyfunc, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s: %s", k.url, response.Status)
	}
	var published struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxKeysSize)).Decode(&published); err != nil {
		return nil, fmt.Errorf("read %s: %w", k.url, err)
	}

	var usable []jwkset.JWK
	for _, raw := range published.Keys {
		// A set may hold keys for other purposes; they must not spoil the rest.
		key, err := jwkset.NewJWKFromRawJSON(raw, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		if err != nil || key.Marshal().USE == jwkset.UseEnc {
			continue
		}
		if _, err := methodOf(key.Key()); err != nil {
			continue
		}
		usable = append(usable, key)
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("read %s: none of its %d keys can be used", k.url, len(published.Keys))
	}
	store := jwkset.NewMemoryStorage()
	if err := store.KeyReplaceAll(ctx, usable); err != nil {
		return nil, fmt.Errorf("keep the keys of %s: %w", k.url, err)
	}
	return keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: store})
}
