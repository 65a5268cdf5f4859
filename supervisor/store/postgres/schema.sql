-- The schema of a store on PostgreSQL. Events are the truth; session and approval are computed from them.
-- As in store/sqlite/schema.sql: a session's number is the position of its first entry; instants are microseconds.
-- Every text compares by bytes, in every locale.

CREATE TABLE meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- One row: the lock of the writers, the last position (never given twice), and how many commits there were.
CREATE TABLE store (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    format   integer NOT NULL,
    last     bigint NOT NULL,
    commits  bigint NOT NULL
) WITH (fillfactor = 10);

-- The last commits, by their numbers: a process whose connection broke asks whether commit N was its own. (The server's
-- transaction ids do not say: one that was not on disk is given again after a crash.)
CREATE TABLE commit (
    number bigint PRIMARY KEY,
    token  text COLLATE "C" NOT NULL
);

CREATE TABLE event (
    position bigint PRIMARY KEY,
    session  bigint NOT NULL,
    id       text COLLATE "C",
    head     integer,
    approval text COLLATE "C",
    body     bytea NOT NULL
);

CREATE TABLE head (
    number integer PRIMARY KEY,
    text   text COLLATE "C" NOT NULL
);

-- A head may be longer than an entry of a B-tree may be (2,704 bytes).
CREATE UNIQUE INDEX head_text ON head (md5(text));

CREATE INDEX event_of_session ON event (session, position);
CREATE UNIQUE INDEX event_first ON event (id) WHERE id IS NOT NULL;
CREATE UNIQUE INDEX event_asking ON event (approval) WHERE approval IS NOT NULL;

CREATE TABLE session (
    number      bigint PRIMARY KEY,
    root        bigint NOT NULL,
    parent      bigint,
    agent       text COLLATE "C",
    last_at     bigint NOT NULL,
    waiting_for text COLLATE "C",
    due_at      bigint,
    finished    bigint,
    runs        integer NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX session_of_tree ON session (root, number);
CREATE INDEX session_open ON session (number) WHERE finished IS NULL;
CREATE INDEX session_due ON session (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX session_blocked ON session (root) WHERE finished IS NULL AND substr(waiting_for, 1, 10) = '["blocked"';

-- What a session has spent itself (below = 0), and what was spent below it; a row only where something was.
CREATE TABLE spent (
    session             bigint NOT NULL,
    below               integer NOT NULL,
    requests            bigint NOT NULL,
    input_tokens        bigint NOT NULL,
    cached_input_tokens bigint NOT NULL,
    output_tokens       bigint NOT NULL,
    nano_usd            bigint NOT NULL,
    unpriced            bigint NOT NULL,
    uncounted           bigint NOT NULL,
    unnumbered          bigint NOT NULL,
    PRIMARY KEY (session, below)
);

CREATE TABLE approval (
    asked    bigint PRIMARY KEY,
    session  bigint NOT NULL,
    root     bigint NOT NULL,
    status   text COLLATE "C",
    decided  bigint,
    shown    text COLLATE "C",
    reminded bigint,
    tool     text COLLATE "C",
    agent    text COLLATE "C",
    asked_at bigint,
    decider  text COLLATE "C",
    words    text COLLATE "C"  -- in lower case and without secrets, a space before and after each
) WITH (fillfactor = 70);

CREATE INDEX approval_pending ON approval (asked) WHERE status IS NULL;
CREATE INDEX approval_pending_of_tree ON approval (root, asked) WHERE status IS NULL;
CREATE INDEX approval_of_session ON approval (session, asked);
CREATE INDEX approval_shown ON approval (asked) WHERE status IS NOT NULL AND shown IS NOT NULL;

-- The processes that have owned trees. `beat`: when it last said that it lives, by the server's clock. NULL: it was
-- declared dead, or has left, and never commits again; no later beat brings it back. `presence`: the key of the
-- advisory lock that its connection holds.
CREATE TABLE owner (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         text COLLATE "C" NOT NULL UNIQUE,
    host       text COLLATE "C" NOT NULL,
    pid        integer NOT NULL,
    since      bigint NOT NULL,
    started_by text COLLATE "C" NOT NULL,
    machine    text COLLATE "C" NOT NULL,
    presence   bigint NOT NULL,
    beat       timestamptz
) WITH (fillfactor = 50);

-- The places of limits that all machines share. A place of an owner that does not live is free.
CREATE TABLE place (
    name   text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    owner  bigint NOT NULL,
    PRIMARY KEY (name, number)
);

-- Lines that are no entries of a journal: what was revoked, and which approvals each person was shown.
CREATE TABLE line (
    book   text COLLATE "C" NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    text   text COLLATE "C" NOT NULL,
    PRIMARY KEY (book, number)
);

-- The secret that signs logins. A role that may read every table, but not write the store, sees no row.
CREATE TABLE secret (
    name  text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);

ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_writers ON secret USING (has_table_privilege('store'::regclass, 'UPDATE'));

CREATE TABLE tree (
    root  text COLLATE "C" PRIMARY KEY,
    owner bigint NOT NULL
) WITH (fillfactor = 80);

CREATE INDEX tree_of_owner ON tree (owner);

-- The owners that live. An owner is dead if it was declared so, if it has been silent for 10 s, or if it has been silent
-- for 3 s and its connection is gone. In the first 10 s of a server none is dead: all must connect again.
CREATE VIEW living AS
SELECT o.* FROM owner AS o
 WHERE o.beat IS NOT NULL
   AND (clock_timestamp() < pg_postmaster_start_time() + interval '10 s'
        OR o.beat > clock_timestamp() - interval '3 s'
        OR (o.beat > clock_timestamp() - interval '10 s' AND EXISTS (
              SELECT 1 FROM pg_locks AS l
               WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                 AND l.classid::bigint = (o.presence >> 32) AND l.objid::bigint = (o.presence & 4294967295))));

CREATE VIEW session_full AS
SELECT c.id, r.id AS root_id, s.number, s.last_at, s.waiting_for, s.due_at, s.finished, s.runs,
       c.head AS created_head, c.body AS created_body, f.head AS finished_head, f.body AS finished_body, s.root,
       (SELECT json_build_array(requests, input_tokens, cached_input_tokens, output_tokens, nano_usd, unpriced, uncounted,
                                unnumbered)::text FROM spent WHERE session = s.number AND below = 0) AS own,
       (SELECT json_build_array(requests, input_tokens, cached_input_tokens, output_tokens, nano_usd, unpriced, uncounted,
                                unnumbered)::text FROM spent WHERE session = s.number AND below = 1) AS below
  FROM session AS s
  JOIN event AS c ON c.position = s.number
  JOIN event AS r ON r.position = s.root
  LEFT JOIN event AS f ON f.position = s.finished;

CREATE VIEW approval_full AS
SELECT r.approval AS id, c.id AS session_id, a.asked, c.head AS created_head, c.body AS created_body,
       r.head AS asked_head, r.body AS asked_body, a.shown, m.body AS reminded_body,
       a.status, d.head AS decided_head, d.body AS decided_body, a.session, a.root,
       a.tool, a.agent, a.asked_at, a.decider, a.words
  FROM approval AS a
  JOIN event AS c ON c.position = a.session
  JOIN event AS r ON r.position = a.asked
  LEFT JOIN event AS d ON d.position = a.decided
  LEFT JOIN event AS m ON m.position = a.reminded;
