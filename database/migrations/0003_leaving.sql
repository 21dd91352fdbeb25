-- Users whose posts, likes and favs must still be deleted. The name is kept here
-- until they are, and nowhere afterwards.
CREATE TABLE user_purges (
  hash         TEXT /* bytewise */ NOT NULL PRIMARY KEY,
  sub          TEXT /* bytewise */ NOT NULL,
  requested_at BIGINT NOT NULL
);

-- Once purged, a user's late events bring nothing back. Before, they are archived
-- like all others: the purge takes back what it finds.
ALTER TABLE deleted_users ADD COLUMN purged BOOLEAN NOT NULL DEFAULT FALSE;

-- Servers read who has left since they last looked.
CREATE INDEX deleted_users_new ON deleted_users (deleted_at);

-- What an author has written.
CREATE INDEX posts_author ON posts (author_sub, id);
