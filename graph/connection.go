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
	return pageInfo(c.Edges(), c.hasNext, c.hasPrevious)
}

// pageInfo is that of a page with these edges.
func pageInfo[E interface{ Cursor() string }](edges []E, hasNext, hasPrevious bool) *PageInfo {
	info := &PageInfo{HasNextPage: hasNext, HasPreviousPage: hasPrevious}
	if n := len(edges); n > 0 {
		first, last := edges[0].Cursor(), edges[n-1].Cursor()
		info.StartCursor, info.EndCursor = &first, &last
	}
	return info
}

// pageSize checks first.
func pageSize(first *int32) (int, error) {
	size := anyPage
	if first != nil {
		size = int(*first)
	}
	if size < 1 || size > maxPage {
		return 0, badInput("first", "must be between 1 and 100")
	}
	return size, nil
}
