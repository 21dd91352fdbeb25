-- Everybody who has written a post or reacted to one. The ordinal is given at
-- the first reaction and never again: facts are kept by it. An author who has
-- not reacted yet has none.
CREATE TABLE users (
  sub     TEXT /* bytewise */ NOT NULL PRIMARY KEY,
  name    TEXT NOT NULL DEFAULT '',
  ordinal BIGINT UNIQUE
);

-- Numbers that are given out. 'ordinal' is the next one to give.
CREATE TABLE counters (
  name  TEXT NOT NULL PRIMARY KEY,
  value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('ordinal', 0);

-- published_at: microseconds since 1970, so that both engines and a cursor
-- mean the same instant.
CREATE TABLE posts (
  id           TEXT /* bytewise */ NOT NULL PRIMARY KEY,
  author_sub   TEXT /* bytewise */ NOT NULL REFERENCES users (sub),
  title        TEXT NOT NULL,
  body         TEXT NOT NULL,
  published_at BIGINT NOT NULL,
  visibility   TEXT NOT NULL CHECK (visibility IN ('PUBLIC', 'PRIVATE'))
);

-- A page reads one range of this index.
CREATE INDEX posts_newest ON posts (visibility, published_at DESC, id DESC);

-- Tombstones. They stay for ever: an id that was deleted never comes back.
CREATE TABLE deleted_posts (
  id         TEXT /* bytewise */ NOT NULL PRIMARY KEY,
  deleted_at BIGINT NOT NULL
);

-- Subjects, like 'post:10001', whose facts and counts must still be deleted.
-- Written with the tombstone, removed when it is done.
CREATE TABLE purges (
  subject      TEXT /* bytewise */ NOT NULL PRIMARY KEY,
  requested_at BIGINT NOT NULL
);
