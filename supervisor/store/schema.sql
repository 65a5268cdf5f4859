-- The schema of a store. Events are the truth; session and approval follow from them and can be rebuilt.
-- Columns named after a moment in a session's life (created, finished, asked, decided) hold positions of events, where
-- the payload is; instants are microseconds since 1970, UTC.

-- The journals of all sessions, in the order of their commits. Appended to, never changed.
CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    session  TEXT NOT NULL,
    body     BLOB NOT NULL  -- one event as JSON, its type in "event"
);

-- Reading one session's journal; the rowid, which is the position, is every index's last column.
CREATE INDEX event_of_session ON event (session);

-- One row per session: what resuming and listing need to know without reading a journal.
CREATE TABLE session (
    id        TEXT PRIMARY KEY,
    parent    TEXT,
    root      TEXT NOT NULL,
    created   INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    is_asleep INTEGER NOT NULL,
    due_at    INTEGER,          -- only while it is asleep
    finished  INTEGER
) WITHOUT ROWID;

-- All sessions of a tree, parents before children.
CREATE INDEX session_of_tree ON session (root, created);

-- Open sessions, for resuming. Whether they sleep is not in it: a decision would have to change it.
CREATE INDEX session_open ON session (created) WHERE finished IS NULL;

-- The sleepers that a timer will wake; most wait for people and are not in it.
CREATE INDEX session_due ON session (due_at) WHERE due_at IS NOT NULL;

-- One row per approval. What was asked and answered is in the events.
CREATE TABLE approval (
    id        TEXT PRIMARY KEY,
    session   TEXT NOT NULL,
    operation TEXT NOT NULL,
    asked     INTEGER NOT NULL,
    status    TEXT NOT NULL,
    decided   INTEGER,
    shown     TEXT NOT NULL     -- names of the channels that hold a card, as JSON
) WITHOUT ROWID;

-- The inbox: what is pending, oldest first.
CREATE INDEX approval_pending ON approval (asked) WHERE status = 'pending';

-- A session's approvals, oldest first. No decision changes it.
CREATE INDEX approval_of_session ON approval (session, asked);

-- Who runs a tree. A row counts only while its owner lives.
CREATE TABLE tree (
    root  TEXT PRIMARY KEY,
    owner TEXT NOT NULL
) WITHOUT ROWID;

-- Whether anything still refers to an owner.
CREATE INDEX tree_of_owner ON tree (owner);

-- The processes that have owned trees; the id is also the name of the lock file that one holds while it lives.
CREATE TABLE owner (
    id    TEXT PRIMARY KEY,
    host  TEXT NOT NULL,
    pid   INTEGER NOT NULL,
    since INTEGER NOT NULL
) WITHOUT ROWID;

-- Sessions with the bodies of the events that they point to.
CREATE VIEW session_full AS
SELECT s.id, s.parent, s.root, s.created, s.last_at, s.is_asleep, s.due_at, s.finished,
       c.body AS created_body, f.body AS finished_body
  FROM session AS s
  CROSS JOIN event AS c ON c.position = s.created
  LEFT JOIN event AS f ON f.position = s.finished;

-- Approvals with their session's root and the bodies of the events that they point to.
CREATE VIEW approval_full AS
SELECT a.id, a.session, a.operation, a.asked, a.status, a.decided, a.shown,
       s.root, c.body AS created_body, r.body AS asked_body, d.body AS decided_body
  FROM approval AS a
  CROSS JOIN session AS s ON s.id = a.session
  CROSS JOIN event AS c ON c.position = s.created
  CROSS JOIN event AS r ON r.position = a.asked
  LEFT JOIN event AS d ON d.position = a.decided;
