const query = `# A page of posts, with counts and what you did.
# Paste the token that the server printed at its start under "Headers" below,
# as the value of Authorization; without it the viewer's fields are null.
query Feed {
  viewer { name }
  feed(first: 10) {
    nodes {
      id
      title
      author { name }
      publishedAt
      likeCount
      favCount
      viewerHasLiked
      viewerHasFaved
    }
    pageInfo { hasNextPage endCursor }
  }
}

mutation Like {
  like(input: { subjectId: "post:10200" }) {
    changed
    subject { id likeCount viewerHasLiked }
  }
}
`;

// send leaves the header out while no token has been pasted: an empty one is an
// error, and no header is nobody.
function send(url, options) {
  const headers = new Headers(options.headers);
  if (/^Bearer\s*$/.test(headers.get('authorization') ?? '')) {
    headers.delete('authorization');
  }
  return fetch(url, { ...options, headers });
}

ReactDOM.createRoot(document.getElementById('graphiql')).render(
  React.createElement(GraphiQL, {
    fetcher: GraphiQL.createFetcher({ url: new URL('../graphql', location.href).href, fetch: send }),
    defaultQuery: query,
    defaultHeaders: JSON.stringify({ Authorization: 'Bearer ' }, null, 2),
    defaultEditorToolsVisibility: 'headers',
    shouldPersistHeaders: false,
  }),
);
