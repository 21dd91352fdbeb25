package graph

// PostConnection is a page of posts.
type PostConnection struct {
	posts       []*Post
	hasNext     bool
	hasPrevious bool
}

// PostEdge is a post on a page.
type PostEdge struct{ Node *Post }

// Cursor is where the post stands.
func (e *PostEdge) Cursor() string { return e.Node.post.Cursor() }

// Edges has one for each post.
func (c *PostConnection) Edges() []*PostEdge {
	all := make([]PostEdge, len(c.posts))
	edges := make([]*PostEdge, len(c.posts))
	for i, post := range c.posts {
		all[i].Node = post
		edges[i] = &all[i]
	}
	return edges
}

// Nodes has the posts alone.
func (c *PostConnection) Nodes() []*Post { return c.posts }

// PageInfo says how to go on.
func (c *PostConnection) PageInfo() *PageInfo {
	info := &PageInfo{HasNextPage: c.hasNext, HasPreviousPage: c.hasPrevious}
	if n := len(c.posts); n > 0 {
		first, last := c.posts[0].post.Cursor(), c.posts[n-1].post.Cursor()
		info.StartCursor, info.EndCursor = &first, &last
	}
	return info
}
