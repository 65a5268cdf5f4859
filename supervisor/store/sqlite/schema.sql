-- The schema of a store, its first released format; later formats are steps from it. Events are the truth; the tables
-- session and approval are computed from them and can be rebuilt.
--
-- A session's number is the position of its first entry. Tables refer to sessions by number and to payload by position,
-- so that rows that were made together are stored together: a decision changes few pages, and the inbox is read in order.
-- Instants are microseconds since 1970, UTC.

-- Facts about the store itself. Its id is made here, once, so that no two stores have the same cursors.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('id', lower(hex(randomblob(5))));

-- The journals of all sessions, in the order of their commits. Appended to, never changed.
CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    session  INTEGER NOT NULL,   -- its number
    id       TEXT,               -- its id, in its first entry only
    head     INTEGER,            -- what the event begins with; null: the body has all of it
    approval TEXT,               -- the id of the approval that it asks for
    body     BLOB NOT NULL       -- the rest of the event, as JSON
);

-- The beginnings of events: their type, and other fields that only code decides, as JSON. Never changed, never removed.
CREATE TABLE head (
    number INTEGER PRIMARY KEY,
    text   TEXT NOT NULL UNIQUE
);

-- Reading one session's journal; the rowid, which is the position, is every index's last column.
CREATE INDEX event_of_session ON event (session);

-- From a session's id to its number. There is one session of each id.
CREATE UNIQUE INDEX event_first ON event (id) WHERE id IS NOT NULL;

-- From an approval's id to the entry that asked. There is one approval of each id.
CREATE UNIQUE INDEX event_asking ON event (approval) WHERE approval IS NOT NULL;

-- One row per session: the facts that resuming and listing need without reading a journal.
CREATE TABLE session (
    number      INTEGER PRIMARY KEY,
    root        INTEGER NOT NULL,
    last_at     INTEGER NOT NULL,
    waiting_for TEXT,            -- what wakes it, as JSON; null while it is awake
    due_at      INTEGER,         -- only while it is asleep
    finished    INTEGER,         -- position of its outcome
    runs        INTEGER NOT NULL -- how many it has begun
);

-- All sessions of a tree, parents before children.
CREATE INDEX session_of_tree ON session (root);

-- Open sessions, for resuming. The index does not say whether they sleep: each decision would have to change it.
CREATE INDEX session_open ON session (number) WHERE finished IS NULL;

-- Sleeping sessions that a timer will wake; most wait for people and are not in the index.
CREATE INDEX session_due ON session (due_at) WHERE due_at IS NOT NULL;

-- Blocked sessions, by tree. The expression is that of the queries.
CREATE INDEX session_blocked ON session (root) WHERE finished IS NULL AND substr(waiting_for, 1, 10) = '["blocked"';

-- One row per approval. Its id, the request and the answer are in the events.
CREATE TABLE approval (
    asked    INTEGER PRIMARY KEY,   -- position of the call
    session  INTEGER NOT NULL,
    root     INTEGER NOT NULL,      -- of its session
    status   TEXT,                  -- null while it is pending
    decided  INTEGER,               -- position of what ended it: a decision, a withdrawal, the call's own end
    shown    TEXT,                  -- names of the channels that hold a card, ?NAME: that may hold one, as JSON
    reminded INTEGER                -- position of the last reminder
);

-- The inbox: pending approvals, oldest first.
CREATE INDEX approval_pending ON approval (asked) WHERE status IS NULL;

-- The same of one tree.
CREATE INDEX approval_pending_of_tree ON approval (root) WHERE status IS NULL;

-- A session's approvals, oldest first. No decision changes it.
CREATE INDEX approval_of_session ON approval (session);

-- The owner of each tree. A row counts only while its owner is alive.
CREATE TABLE tree (
    root  TEXT PRIMARY KEY,
    owner INTEGER NOT NULL   -- its number: a name of 32 letters, twice for each tree, would be a tenth of the store
) WITHOUT ROWID;

-- Whether a tree still refers to an owner.
CREATE INDEX tree_of_owner ON tree (owner);

-- The processes that have owned trees; the id is also the name of the lock file that the process holds while it is alive.
-- A row to which a tree refers is never removed, so that its number is not given to another process.
CREATE TABLE owner (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE,
    host   TEXT NOT NULL,
    pid    INTEGER NOT NULL,
    since  INTEGER NOT NULL
);

-- Sessions with the events that they point to.
CREATE VIEW session_full AS
SELECT c.id, r.id AS root_id, s.number, s.last_at, s.waiting_for, s.due_at, s.finished, s.runs,
       c.head AS created_head, c.body AS created_body, f.head AS finished_head, f.body AS finished_body, s.root
  FROM session AS s
  CROSS JOIN event AS c ON c.position = s.number
  CROSS JOIN event AS r ON r.position = s.root
  LEFT JOIN event AS f ON f.position = s.finished;

-- Approvals with the events that they point to.
CREATE VIEW approval_full AS
SELECT r.approval AS id, c.id AS session_id, a.asked, c.head AS created_head, c.body AS created_body,
       r.body AS asked_body, a.shown, m.body AS reminded_body,
       a.status, d.head AS decided_head, d.body AS decided_body, a.session, a.root
  FROM approval AS a
  CROSS JOIN event AS c ON c.position = a.session
  CROSS JOIN event AS r ON r.position = a.asked
  LEFT JOIN event AS d ON d.position = a.decided
  LEFT JOIN event AS m ON m.position = a.reminded;
