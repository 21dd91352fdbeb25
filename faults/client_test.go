package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tallyfeed/tallyfeed/auth"
)

const secret = "a secret of the fault harness, of 32 bytes"

// fact names what one client was told about.
type fact struct {
	viewer, post int
	metric       string // "like" or "fav"
}

// told is what the clients know. Each viewer belongs to one client, so the order
// of its requests is known.
type told struct {
	mu      sync.Mutex
	states  map[fact]bool
	unsure  map[fact]doubt
	wrong   []string
	changes int
	answers int
	errs    int
}

// doubt is about a fact whose last request had no answer.
type doubt struct {
	want bool
	at   time.Time
}

// late is how long a request that had no answer may still be on its way: in the
// buffers of a stopped process, or of a network that stalls. Only after that
// does a retry tell for good. (Two requests that wish for opposite things, sent
// while the first may still arrive, have no order that anybody could keep.)
const late = 16 * time.Second

// client likes and unlikes through random servers until it is told to stop, then
// asks again until it knows the state of all its facts.
type client struct {
	told      *told
	http      *http.Client
	addresses []string
	tokens    []string // by viewer
	viewers   []int
	posts     int
	random    *rand.Rand
}

func tokensFor(t *testing.T, viewers int) []string {
	t.Helper()
	tokens := make([]string, viewers)
	for i := range tokens {
		token, err := auth.Mint([]byte(secret), fmt.Sprintf("viewer%d", i), "", "", "", 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		tokens[i] = token
	}
	return tokens
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		f := fact{
			viewer: c.viewers[c.random.IntN(len(c.viewers))],
			post:   int(math.Exp(c.random.Float64() * math.Log(float64(c.posts)))), // Zipf: 1 is the hottest
			metric: []string{"like", "like", "fav"}[c.random.IntN(3)],
		}
		want := c.random.IntN(3) > 0
		if d, unsure := c.told.doubtOf(f); unsure {
			if time.Since(d.at) < late {
				continue
			}
			want = d.want
		}
		c.set(f, want) //nolint:contextcheck // the end of the run is no end of a request
		time.Sleep(time.Duration(c.random.IntN(4)) * time.Millisecond)
	}
}

// settle finds out about every fact whose last request had no answer.
func (c *client) settle(within time.Duration) error {
	deadline := time.Now().Add(within)
	for _, viewer := range c.viewers {
		for {
			f, d, found := c.told.anyUnsure(viewer)
			if !found {
				break
			}
			if c.set(f, d.want); time.Now().After(deadline) {
				return fmt.Errorf("%+v still has no answer", f)
			}
		}
	}
	return nil
}

func (t *told) anyUnsure(viewer int) (fact, doubt, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f, d := range t.unsure {
		if f.viewer == viewer {
			return f, d, true
		}
	}
	return fact{}, doubt{}, false
}

func (t *told) doubtOf(f fact) (doubt, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, unsure := t.unsure[f]
	return d, unsure
}

func (c *client) set(f fact, want bool) {
	changed, err := c.send(f, want)
	t := c.told
	t.mu.Lock()
	defer t.mu.Unlock()
	_, unsure := t.unsure[f]
	if err != nil {
		t.errs++
		t.unsure[f] = doubt{want: want, at: time.Now()} // either state
		return
	}
	t.answers++
	if changed {
		t.changes++
	}
	if !unsure && changed != (t.states[f] != want) {
		t.wrong = append(t.wrong, fmt.Sprintf("%+v to %t: changed %t, the client knew %t", f, want, changed, t.states[f]))
	}
	t.states[f] = want
	delete(t.unsure, f)
}

// send asks one server. Everything but a clean answer is an error.
func (c *client) send(f fact, want bool) (changed bool, err error) {
	name := f.metric
	if !want {
		name = "un" + name
	}
	body := fmt.Appendf(nil, `{"query":"mutation{r:%s(input:{subjectId:\"post:%d\"}){changed subject{likeCount favCount viewerHasLiked viewerHasFaved}}}"}`, name, f.post)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	address := c.addresses[c.random.IntN(len(c.addresses))]
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/graphql", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.tokens[f.viewer])
	response, err := c.http.Do(r)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err
	}
	var answer struct {
		Data struct {
			R *struct {
				Changed bool
				Subject struct {
					LikeCount, FavCount            int
					ViewerHasLiked, ViewerHasFaved bool
				}
			}
		}
		Errors []any
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return false, err
	}
	if len(answer.Errors) > 0 || answer.Data.R == nil {
		return false, errors.New(string(text))
	}
	subject := answer.Data.R.Subject
	lit, count := subject.ViewerHasLiked, subject.LikeCount
	if f.metric == "fav" {
		lit, count = subject.ViewerHasFaved, subject.FavCount
	}
	if lit != want || want && count < 1 {
		c.told.mu.Lock()
		c.told.wrong = append(c.told.wrong, fmt.Sprintf("%+v to %t was answered with %s", f, want, text))
		c.told.mu.Unlock()
	}
	return answer.Data.R.Changed, nil
}
