package feed

import (
	"time"

	"github.com/uptrace/bun"
)

// Visibility says who may read a post.
type Visibility string

const (
	Public  Visibility = "PUBLIC"  // everybody, and it is in the feed
	Private Visibility = "PRIVATE" // its author only, and it is in no feed
)

// Author is who wrote a post. Nobody may change one: caches share it.
type Author struct {
	Sub  string // of the author's tokens
	Name string // "" when neither an import nor a token has given one
}

// Post is one post. Nobody may change one: caches share it.
type Post struct {
	ID          string
	Author      *Author
	Title       string
	Body        string
	PublishedAt time.Time // UTC, whole microseconds
	Visibility  Visibility
}

// VisibleTo reports whether the viewer sub may read p. Nobody signed in is "".
func (p *Post) VisibleTo(sub string) bool {
	return p.Visibility == Public || sub != "" && sub == p.Author.Sub
}

// Draft is a post to be published. Visibility "" is Public.
type Draft struct {
	Title      string
	Body       string
	Visibility Visibility
}

// Changes is what Update changes; nil leaves a field as it is.
type Changes struct {
	Title      *string
	Body       *string
	Visibility *Visibility
}

// overhead is about what an entry costs beside its text.
const overhead = 256

func (p *Post) weight() uint32 {
	if p == nil {
		return overhead
	}
	return uint32(overhead + len(p.Title) + len(p.Body)) // both are bounded
}

func (a *Author) weight() uint32 { return overhead }

// postRow is a row of posts, and its author's name where that was joined.
type postRow struct {
	bun.BaseModel `bun:"table:posts,alias:p"`

	ID          string     `bun:"id,pk"`
	AuthorSub   string     `bun:"author_sub"`
	Title       string     `bun:"title"`
	Body        string     `bun:"body"`
	PublishedAt int64      `bun:"published_at"` // microseconds since 1970
	Visibility  Visibility `bun:"visibility"`
	AuthorName  string     `bun:"author_name,scanonly"`
}

func (r *postRow) post() *Post {
	return &Post{
		ID:          r.ID,
		Author:      &Author{Sub: r.AuthorSub, Name: r.AuthorName},
		Title:       r.Title,
		Body:        r.Body,
		PublishedAt: time.UnixMicro(r.PublishedAt).UTC(),
		Visibility:  r.Visibility,
	}
}

// selectPosts selects whole posts into rows; the caller says which.
func selectPosts(db bun.IDB, rows any) *bun.SelectQuery {
	return db.NewSelect().Model(rows).
		ColumnExpr("p.*, u.name AS author_name").
		Join("JOIN users AS u ON u.sub = p.author_sub")
}
