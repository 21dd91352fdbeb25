-- The archive: the second copy of the facts, by viewer. A viewer is kept by
-- ordinal, as in Redis. metric: 0 like, 1 fav. version orders the changes of a
-- subject and holds the time of the change: milliseconds << 20 | sequence. An
-- unlike keeps its row, inactive, or a replay would revive the like.
CREATE TABLE reactions (
  subject TEXT /* bytewise */ NOT NULL,
  metric  SMALLINT NOT NULL,
  ordinal BIGINT NOT NULL,
  active  BOOLEAN NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (subject, metric, ordinal)
);

-- Who likes this, newest first.
CREATE INDEX reactions_newest ON reactions (subject, metric, version DESC, ordinal DESC) WHERE active;

-- What does this viewer like, newest first.
CREATE INDEX reactions_mine ON reactions (ordinal, metric, version DESC, subject DESC) WHERE active;

-- What this viewer has taken back: for who leaves.
CREATE INDEX reactions_withdrawn ON reactions (ordinal) WHERE NOT active;

-- Counts as the newest archived change left them: absolute, never added up.
-- tag is the subject's part of Redis, 0 to 255.
CREATE TABLE subject_counts (
  subject TEXT /* bytewise */ NOT NULL PRIMARY KEY,
  tag     SMALLINT NOT NULL,
  likes   BIGINT NOT NULL,
  favs    BIGINT NOT NULL,
  version BIGINT NOT NULL
);

-- What a part of Redis has touched since a version.
CREATE INDEX subject_counts_touched ON subject_counts (tag, version);

-- All subjects of a part of Redis, in their order.
CREATE INDEX subject_counts_tag ON subject_counts (tag, subject);

-- The highest version that the archive has ever seen of a tag. It outlives what
-- is deleted: a Redis whose own is lower has lost its tail.
CREATE TABLE tag_versions (
  tag     SMALLINT NOT NULL PRIMARY KEY,
  version BIGINT NOT NULL
);

-- How far the last compensation has looked, by tag.
CREATE TABLE compensations (
  tag     SMALLINT NOT NULL PRIMARY KEY,
  version BIGINT NOT NULL
);

-- Tombstones of users, by the SHA-256 of their sub in hex: who has left is not
-- kept by name. A late event of theirs brings nothing back.
CREATE TABLE deleted_users (
  hash       TEXT /* bytewise */ NOT NULL PRIMARY KEY,
  deleted_at BIGINT NOT NULL
);
