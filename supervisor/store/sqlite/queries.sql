-- The queries of the SQLite store. Each begins with its name and, after the colon, its purpose.

-- meta: facts about the store itself
SELECT value FROM meta WHERE name = ?;

-- facts: facts whose names begin with a text of ASCII, without the store's id
SELECT name, value FROM meta WHERE name >= ?1 AND name < ?1 || '~' AND name <> 'id';

-- put_fact: set a fact about the store itself
INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- remove_fact: forget a fact about the store itself
DELETE FROM meta WHERE name = ?;

-- append: add journal entries; a position that is taken is an error
INSERT INTO event (position, session, id, head, approval, body) VALUES (?, ?, ?, ?, ?, ?);

-- numbers: the numbers of some sessions, by their ids
SELECT k.value, e.position FROM json_each(?) AS k CROSS JOIN event AS e ON e.id = k.value;

-- last_position: the position after which the next entry is written
SELECT coalesce(max(position), 0) FROM event;

-- head_number: the number of a head
SELECT number FROM head WHERE text = ?;

-- add_head: make a head, unless there are too many
INSERT OR IGNORE INTO head (text) SELECT ? WHERE (SELECT coalesce(max(number), 0) FROM head) < ?;

-- head_text: the head with a number
SELECT text FROM head WHERE number = ?;

-- entry_at: the entry at a position, which the index names
SELECT head, body FROM event WHERE position = ?;

-- rows: every entry after a position, up to another
SELECT e.position, f.id, e.head, e.approval, e.body FROM event AS e CROSS JOIN event AS f ON f.position = e.session
 WHERE e.position > ? AND e.position <= ? ORDER BY e.position;

-- rows_of: the same of some events, by their names; an entry without a head may be of any
SELECT e.position, f.id, e.head, e.approval, e.body FROM event AS e CROSS JOIN event AS f ON f.position = e.session
 WHERE e.position > ? AND e.position <= ? AND (e.head IS NULL OR e.head IN (
       SELECT number FROM json_each(?) AS k CROSS JOIN head
        WHERE text >= '{"event":"' || k.value || '"' AND text < '{"event":"' || k.value || '#'))
 ORDER BY e.position;

-- some_rows: a bounded part of the same, to rebuild the index from
SELECT e.position, f.id, e.head, e.approval, e.body FROM event AS e CROSS JOIN event AS f ON f.position = e.session
 WHERE e.position > ? ORDER BY e.position LIMIT 1000;

-- journal: one session's entries after a position
SELECT position, head, approval, body FROM event
 WHERE session = (SELECT position FROM event WHERE id = ?) AND position > ? ORDER BY position;

-- journal_of: the same of some events, as in rows_of
SELECT position, head, approval, body FROM event
 WHERE session = (SELECT position FROM event WHERE id = ?) AND position > ? AND (head IS NULL OR head IN (
       SELECT number FROM json_each(?) AS k CROSS JOIN head
        WHERE text >= '{"event":"' || k.value || '"' AND text < '{"event":"' || k.value || '#'))
 ORDER BY position;

-- session_entries: the index entries of some sessions, to change them; their roots do not change and are not read
SELECT k.value, '', s.number, s.last_at, s.waiting_for, s.due_at, s.finished, s.runs, s.agent
  FROM json_each(?) AS k CROSS JOIN event AS c ON c.id = k.value CROSS JOIN session AS s ON s.number = c.position;

-- add_session: put a new session into the index
INSERT INTO session (number, root, parent, agent, last_at, waiting_for, due_at, finished, runs)
VALUES (?, (SELECT position FROM event WHERE id = ?), (SELECT position FROM event WHERE id = ?), ?, ?, ?, ?, ?, ?);

-- change_session: the columns of a session that may change
UPDATE session SET last_at = ?, waiting_for = ?, due_at = ?, finished = ?, runs = ? WHERE number = ?;

-- add_spent: add to what a session has spent, and to what was spent below each session above it
INSERT INTO spent
WITH RECURSIVE up (number, below) AS (
    SELECT position, 0 FROM event WHERE id = ?1
    UNION ALL SELECT s.parent, 1 FROM up CROSS JOIN session AS s ON s.number = up.number WHERE s.parent IS NOT NULL)
SELECT number, below, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM up WHERE true
    ON CONFLICT (session, below) DO UPDATE SET requests = requests + excluded.requests,
       input_tokens = input_tokens + excluded.input_tokens,
       cached_input_tokens = cached_input_tokens + excluded.cached_input_tokens,
       output_tokens = output_tokens + excluded.output_tokens, nano_usd = nano_usd + excluded.nano_usd,
       unpriced = unpriced + excluded.unpriced, uncounted = uncounted + excluded.uncounted,
       unnumbered = unnumbered + excluded.unnumbered;

-- clear_spent: remove that part of the index, to rebuild it
DELETE FROM spent;

-- clear_sessions: remove the index, to rebuild it
DELETE FROM session;

-- approval_entries: the index entries of some approvals, to change them; their sessions do not change and are not read
SELECT k.value, '', a.asked, a.status, a.decided, a.shown, a.reminded, a.decider
  FROM json_each(?) AS k CROSS JOIN event AS r ON r.approval = k.value CROSS JOIN approval AS a ON a.asked = r.position;

-- add_approval: put a new approval into the index
INSERT INTO approval (asked, session, root, tool, agent, asked_at, status, decided, shown, reminded, decider)
SELECT ?1, s.number, s.root, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM event AS c CROSS JOIN session AS s ON s.number = c.position
 WHERE c.id = ?2;

-- change_approval: the columns of an approval that may change
UPDATE approval SET status = ?, decided = ?, shown = ?, reminded = ?, decider = ? WHERE asked = ?;

-- add_words: put the words of an approval into the index
INSERT INTO asked_words (rowid, words) VALUES (?, ?);

-- clear_words: remove that part of the index, to rebuild it
DELETE FROM asked_words;

-- clear_approvals: remove the index, to rebuild it
DELETE FROM approval;

-- session: one session for people
SELECT * FROM session_full WHERE number = (SELECT position FROM event WHERE id = ?);

-- latest_run: the number of a session's latest run, and the entry that ended it
SELECT s.runs, f.position, f.head, f.approval, f.body FROM event AS c CROSS JOIN session AS s ON s.number = c.position
  LEFT JOIN event AS f ON f.position = s.finished WHERE c.id = ?;

-- some_sessions: those of some ids
SELECT s.* FROM json_each(?) AS k CROSS JOIN event AS c ON c.id = k.value CROSS JOIN session_full AS s
    ON s.number = c.position;

-- sessions_blocked_in: blocked ones, tree after tree; those of the first tree after a position
SELECT s.* FROM json_each(?1) AS k CROSS JOIN event AS r ON r.id = k.value CROSS JOIN session_full AS s
    ON s.root = r.position
 WHERE s.finished IS NULL AND substr(s.waiting_for, 1, 10) = '["blocked"' AND (k.key > 0 OR s.number > ?2);

-- continued: where the journals of a tree's sessions go on after a position; of those that began before it
SELECT s.number, c.id, (SELECT min(position) FROM event WHERE session = s.number AND position > ?3)
  FROM session AS s CROSS JOIN event AS c ON c.position = s.number
 WHERE s.root = (SELECT position FROM event WHERE id = ?1) AND s.number > ?2 AND s.number <= ?3
 ORDER BY s.number LIMIT ?4;

-- due: passivated sessions that a timer wakes
SELECT c.id, s.due_at FROM session AS s CROSS JOIN event AS c ON c.position = s.number
 WHERE s.due_at IS NOT NULL ORDER BY s.due_at, s.number;

-- asking: the operation of an approval, to decide it
SELECT c.id, r.body FROM event AS r CROSS JOIN event AS c ON c.position = r.session WHERE r.approval = ?;

-- approval: one approval for people
SELECT * FROM approval_full WHERE asked = (SELECT position FROM event WHERE approval = ?);

-- approvals_shown: those that are not pending, but that a card may still show as pending; read once, when a daemon starts
SELECT * FROM approval_full WHERE status IS NOT NULL AND shown IS NOT NULL ORDER BY asked;

-- approvals_pending_in: pending ones, tree after tree; those of the first tree after a position
SELECT a.id, a.session_id, a.asked, a.created_head, a.created_body, a.asked_head, a.asked_body, a.shown, a.reminded_body
  FROM json_each(?1) AS k CROSS JOIN event AS r ON r.id = k.value CROSS JOIN approval_full AS a ON a.root = r.position
 WHERE a.status IS NULL AND (k.key > 0 OR a.asked > ?2);

-- counts: sessions, open ones, pending approvals, blocked sessions; each from an index alone
SELECT (SELECT count(*) FROM session), (SELECT count(*) FROM session WHERE finished IS NULL),
       (SELECT count(*) FROM approval WHERE status IS NULL),
       (SELECT count(*) FROM session WHERE finished IS NULL AND substr(waiting_for, 1, 10) = '["blocked"');

-- owner_of_tree: the process that has, or had, a tree
SELECT o.id, o.host, o.pid, o.since FROM tree AS t CROSS JOIN owner AS o ON o.number = t.owner WHERE t.root = ?;

-- owners_of_trees: the owners of some trees, or the former ones
SELECT t.root, o.id, o.host, o.pid, o.since FROM json_each(?) AS k CROSS JOIN tree AS t ON t.root = k.value
 CROSS JOIN owner AS o ON o.number = t.owner;

-- owners: all processes that have owned a tree; few, since dead ones are removed
SELECT id, host, pid, since FROM owner;

-- add_owner: add the process that holds the lock file of this name
INSERT OR IGNORE INTO owner (id, host, pid, since) VALUES (?, ?, ?, ?);

-- own: give a tree to an owner, whichever owner had it
INSERT OR REPLACE INTO tree (root, owner) SELECT ?, number FROM owner WHERE id = ?;

-- clear_owners: remove the owners, but one, to which no tree refers
DELETE FROM owner WHERE id <> ? AND NOT EXISTS (SELECT 1 FROM tree WHERE tree.owner = owner.number);

-- size_of_tree: how many entries a tree has, and their size in bytes
SELECT count(*), coalesce(sum(length(e.body)), 0) FROM session AS t CROSS JOIN event AS e ON e.session = t.number
 WHERE t.root = (SELECT position FROM event WHERE id = ?);

-- remove_words: remove the words of a tree's approvals, by its number
DELETE FROM asked_words WHERE rowid IN (
       SELECT asked FROM approval WHERE session IN (SELECT number FROM session WHERE root = ?));

-- remove_approvals: remove those of a tree, by its number
DELETE FROM approval WHERE session IN (SELECT number FROM session WHERE root = ?);

-- remove_events: remove the journals of a tree, by its number
DELETE FROM event WHERE session IN (SELECT number FROM session WHERE root = ?);

-- remove_spent: remove what its sessions have spent, by its number
DELETE FROM spent WHERE session IN (SELECT number FROM session WHERE root = ?);

-- remove_sessions: remove the sessions of a tree, by its number
DELETE FROM session WHERE root = ?;

-- remove_tree: remove its owner
DELETE FROM tree WHERE root = ?;

-- keep_place: the last position stays taken when its entry is removed; a row of no session, which is never read, keeps it
INSERT OR IGNORE INTO event (position, session, id, body) VALUES (?, 0, NULL, x'');

-- clear_places: remove the places that were kept before
DELETE FROM event WHERE session = 0 AND position < ?;
