package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// plain is the page of 20 as one would write it by hand for this one page:
// net/http, go-redis and encoding/json, posts in memory. It reads the same keys
// in the same two pipelines, and checks the token. What GraphQL costs is what
// Tallyfeed takes more.
type plain struct {
	redis  *redis.Client
	posts  []plainPost
	secret []byte
	parser *jwt.Parser
}

type plainPost struct {
	ID             string      `json:"id"`
	Author         plainAuthor `json:"author"`
	Title          string      `json:"title"`
	Body           string      `json:"body"`
	PublishedAt    time.Time   `json:"publishedAt"`
	Visibility     string      `json:"visibility"`
	LikeCount      *uint32     `json:"likeCount"`
	FavCount       *uint32     `json:"favCount"`
	CountsAsOf     *time.Time  `json:"countsAsOf"`
	ViewerHasLiked *bool       `json:"viewerHasLiked"`
	ViewerHasFaved *bool       `json:"viewerHasFaved"`
}

type plainAuthor struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type plainCommand struct {
	Redis   string `required:""`
	Posts   string `required:"" help:"The JSONL that Tallyfeed imported."`
	Secret  string `required:""`
	Ordinal uint32 `required:"" help:"The viewer's."`
	Listen  string `default:"127.0.0.1:0"`
}

// Run serves until it is killed.
func (c *plainCommand) Run(ctx context.Context) error {
	options, err := redis.ParseURL(c.Redis)
	if err != nil {
		return err
	}
	p := &plain{
		redis: redis.NewClient(options), secret: []byte(c.Secret),
		parser: jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired()),
	}
	if p.posts, err = newest(c.Posts, pageSize); err != nil {
		return err
	}
	return listen(ctx, c.Listen, p.page(c.Ordinal))
}

// newest reads the last n lines, newest first.
func newest(file string, n int) ([]plainPost, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var posts []plainPost
	for i := len(lines) - 1; i >= 0 && len(posts) < n; i-- {
		var line struct {
			ID, Author, AuthorName, Title, Body string
			PublishedAt                         time.Time
		}
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			return nil, err
		}
		posts = append(posts, plainPost{
			ID: "post:" + line.ID, Author: plainAuthor{"user:" + line.Author, line.AuthorName},
			Title: line.Title, Body: line.Body, PublishedAt: line.PublishedAt, Visibility: "PUBLIC",
		})
	}
	return posts, nil
}

func (p *plain) page(ordinal uint32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var claims jwt.RegisteredClaims
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if _, err := p.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return p.secret, nil }); err != nil {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		var body struct{ Query string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, "bad body", http.StatusBadRequest)
			return
		}
		posts := make([]plainPost, len(p.posts))
		copy(posts, p.posts)
		group, ctx := errgroup.WithContext(r.Context())
		var counts []*redis.SliceCmd
		group.Go(func() (err error) { counts, err = p.counts(ctx, posts); return err })
		var mine []any
		group.Go(func() (err error) { mine, err = p.flags(ctx, claims.Subject, ordinal, posts); return err })
		if err := group.Wait(); err != nil {
			http.Error(w, "redis", http.StatusServiceUnavailable)
			return
		}
		for i := range posts {
			lay(&posts[i], counts[i], mine[i])
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"feed": map[string]any{"nodes": posts}}})
	})
}

func tagOf(subject string) string {
	return fmt.Sprintf("{%02x}", crc32.ChecksumIEEE([]byte(subject))%256)
}

func (p *plain) counts(ctx context.Context, posts []plainPost) ([]*redis.SliceCmd, error) {
	pipe := p.redis.Pipeline()
	cmds := make([]*redis.SliceCmd, len(posts))
	for i, post := range posts {
		tag := tagOf(post.ID)
		cmds[i] = pipe.MGet(ctx, "cnt:v1:"+post.ID+tag, "epoch"+tag)
	}
	_, err := pipe.Exec(ctx)
	return cmds, err
}

func (p *plain) flags(ctx context.Context, sub string, ordinal uint32, posts []plainPost) ([]any, error) {
	pipe := p.redis.Pipeline()
	sum := sha256.Sum256([]byte(sub))
	fields := make([]string, 0, len(posts)+1)
	for _, post := range posts {
		fields = append(fields, post.ID)
	}
	mine := pipe.HMGet(ctx, "mine:"+hex.EncodeToString(sum[:16]), append(fields, "#")...)
	type asked struct {
		few, chunk *redis.BoolCmd
		bitmap     *redis.IntCmd
	}
	all := make([][2]asked, len(posts))
	chunk, offset := ordinal/32768, ordinal%32768
	tags := map[string]*redis.StringCmd{}
	for i, post := range posts {
		tag := tagOf(post.ID)
		for m, metric := range []string{"like", "fav"} {
			base := fmt.Sprintf("bm:%s:%s:", metric, post.ID)
			all[i][m] = asked{
				pipe.SIsMember(ctx, base+"few"+tag, ordinal),
				pipe.SIsMember(ctx, fmt.Sprintf("%s%d:few%s", base, chunk, tag), offset),
				pipe.GetBit(ctx, fmt.Sprintf("%s%d%s", base, chunk, tag), int64(offset)),
			}
		}
	}
	for _, post := range posts {
		if tag := tagOf(post.ID); tags[tag] == nil {
			tags[tag] = pipe.Get(ctx, "epoch"+tag)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i := range posts {
		var flags [2]bool
		for m, a := range all[i] {
			flags[m] = a.few.Val() || a.chunk.Val() || a.bitmap.Val() == 1
		}
		posts[i].ViewerHasLiked, posts[i].ViewerHasFaved = &flags[0], &flags[1]
	}
	return mine.Val(), nil
}

func lay(post *plainPost, cmd *redis.SliceCmd, own any) {
	text, _ := cmd.Val()[0].(string)
	if len(text) != 28 {
		return
	}
	b := []byte(text)
	like, fav, version := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint64(b[20:])
	if text, ok := own.(string); ok && len(text) == 16 {
		if o := []byte(text); binary.BigEndian.Uint64(o[8:]) > version {
			like, fav, version = binary.BigEndian.Uint32(o), binary.BigEndian.Uint32(o[4:]), binary.BigEndian.Uint64(o[8:])
		}
	}
	at := time.UnixMilli(int64(version >> 20)).UTC()
	post.LikeCount, post.FavCount, post.CountsAsOf = &like, &fav, &at
}
