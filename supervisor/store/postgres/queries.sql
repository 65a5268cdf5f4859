-- The queries of the PostgreSQL store; names and columns are those of store/sqlite/queries.sql.

-- door: one process at a time comes in, or upgrades the store; until the end of its transaction
SELECT pg_advisory_xact_lock(hashtextextended('supervisor ' || $1, 0));

-- room: held by each connection to an open store
SELECT pg_advisory_lock_shared(hashtextextended('supervisor ' || $1, 2));

-- whole_room: whether no other connection has the store open; none comes in until the end of the transaction
SELECT pg_try_advisory_xact_lock(hashtextextended('supervisor ' || $1, 2));

-- inside: the processes that have the store open
SELECT DISTINCT coalesce(nullif(split_part(a.application_name, ' ', 3), ''), 'a process of ' || a.usename)
  FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid <> pg_backend_pid()
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended('supervisor ' || $1, 2)
 ORDER BY 1;

-- begin: wait for nothing
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- lock: the writers' lock; no row while another process has it
SELECT last, format FROM store FOR UPDATE SKIP LOCKED;

-- lock_now: the same in a piece that commits; an error while another process has it
SELECT 1 FROM store FOR UPDATE NOWAIT;

-- free: end the connection of a writer that was stopped while it sent a transaction; it would hold the lock for ever
SELECT pg_terminate_backend(a.pid) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.relation = 'store'::regclass AND l.mode = 'RowShareLock' AND l.granted AND a.usename = current_user
   AND a.pid <> pg_backend_pid() AND a.application_name LIKE 'supervisor writer%' AND a.wait_event = 'ClientRead'
   AND a.query_start < clock_timestamp() - make_interval(secs => $1);

-- present: the last commit, its name, and whether an owner was not declared dead; after `lock`, it is of its instant
SELECT s.commits, c.token, $1::text IS NULL OR EXISTS (SELECT 1 FROM owner WHERE id = $1 AND beat IS NOT NULL)
  FROM store AS s LEFT JOIN commit AS c ON c.number = s.commits;

-- move: note the last position, and name the commit; an error (no name) if `present` is not what this process knows
WITH moved AS (UPDATE store SET last = greatest(last, $1), commits = commits + 1)
INSERT INTO commit (number, token)
SELECT $3::bigint + 1, CASE WHEN s.commits = $3 AND c.token IS NOT DISTINCT FROM $4
       AND ($5::text IS NULL OR EXISTS (SELECT 1 FROM owner WHERE id = $5 AND beat IS NOT NULL)) THEN $2::text END
  FROM store AS s LEFT JOIN commit AS c ON c.number = s.commits;

-- signed: whose commit it was
SELECT token FROM commit WHERE number = $1;

-- clear_signs: remove the names of old commits
DELETE FROM commit WHERE number < $1;

-- look: what has_changed asks
SELECT s.last, $1::text IS NULL OR EXISTS (SELECT 1 FROM owner WHERE id = $1 AND beat IS NOT NULL),
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
  FROM store AS s;

-- meta: facts about the store itself
SELECT value FROM meta WHERE name = $1;

-- append: add journal entries; a position that is taken is an error
INSERT INTO event (position, session, id, head, approval, body) VALUES ($1, $2, $3, $4, $5, $6);

-- numbers: the numbers of some sessions, by their ids
SELECT e.id, e.position FROM event AS e WHERE e.id IN (SELECT json_array_elements_text($1::json));

-- last_position: the last position that was given
SELECT last FROM store;

-- head_number: the number of a head
SELECT number FROM head WHERE md5(text) = md5($1) AND text = $1;

-- add_head: make a head, unless there are too many; only under the lock
INSERT INTO head (number, text) SELECT coalesce(max(number), 0) + 1, $1 FROM head HAVING coalesce(max(number), 0) < $2
ON CONFLICT DO NOTHING;

-- head_text: the head with a number
SELECT text FROM head WHERE number = $1;

-- entry_at: the entry at a position, which the index names
SELECT head, body FROM event WHERE position = $1;

-- rows: every entry after a position, up to another
SELECT e.position, f.id, e.head, e.approval, e.body FROM event AS e JOIN event AS f ON f.position = e.session
 WHERE e.position > $1 AND e.position <= $2 ORDER BY e.position;

-- rows_of: the same of some events, by their names; an entry without a head may be of any
SELECT e.position, f.id, e.head, e.approval, e.body FROM event AS e JOIN event AS f ON f.position = e.session
 WHERE e.position > $1 AND e.position <= $2 AND (e.head IS NULL OR e.head IN (
       SELECT number FROM json_array_elements_text($3::json) AS k(value) JOIN head
          ON text >= '{"event":"' || k.value || '"' AND text < '{"event":"' || k.value || '#'))
 ORDER BY e.position;

-- journal: one session's entries after a position
SELECT position, head, approval, body FROM event
 WHERE session = (SELECT position FROM event WHERE id = $1) AND position > $2 ORDER BY position;

-- journal_of: the same of some events, as in rows_of
SELECT position, head, approval, body FROM event
 WHERE session = (SELECT position FROM event WHERE id = $1) AND position > $2 AND (head IS NULL OR head IN (
       SELECT number FROM json_array_elements_text($3::json) AS k(value) JOIN head
          ON text >= '{"event":"' || k.value || '"' AND text < '{"event":"' || k.value || '#'))
 ORDER BY position;

-- session_entries: the index entries of some sessions, to change them; their roots do not change and are not read
SELECT c.id, '', s.number, s.last_at, s.waiting_for, s.due_at, s.finished, s.runs, s.agent
  FROM event AS c JOIN session AS s ON s.number = c.position
 WHERE c.id IN (SELECT json_array_elements_text($1::json));

-- add_session: put a new session into the index
INSERT INTO session (number, root, parent, agent, last_at, waiting_for, due_at, finished, runs)
VALUES ($1, (SELECT position FROM event WHERE id = $2), (SELECT position FROM event WHERE id = $3), $4, $5, $6, $7, $8, $9);

-- add_spent: add to what a session has spent, and to what was spent below each session above it
INSERT INTO spent
WITH RECURSIVE up (number, below) AS (
    SELECT position, 0 FROM event WHERE id = $1
    UNION ALL SELECT s.parent, 1 FROM up JOIN session AS s ON s.number = up.number WHERE s.parent IS NOT NULL)
SELECT number, below, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint FROM up
    ON CONFLICT (session, below) DO UPDATE SET requests = spent.requests + excluded.requests,
       input_tokens = spent.input_tokens + excluded.input_tokens,
       cached_input_tokens = spent.cached_input_tokens + excluded.cached_input_tokens,
       output_tokens = spent.output_tokens + excluded.output_tokens, nano_usd = spent.nano_usd + excluded.nano_usd,
       unpriced = spent.unpriced + excluded.unpriced, uncounted = spent.uncounted + excluded.uncounted,
       unnumbered = spent.unnumbered + excluded.unnumbered;

-- change_session: the columns of a session that may change
UPDATE session SET last_at = $1, waiting_for = $2, due_at = $3, finished = $4, runs = $5 WHERE number = $6;

-- approval_entries: the index entries of some approvals, to change them; their sessions do not change and are not read
SELECT r.approval, '', a.asked, a.status, a.decided, a.shown, a.reminded, a.decider
  FROM event AS r JOIN approval AS a ON a.asked = r.position
 WHERE r.approval IN (SELECT json_array_elements_text($1::json));

-- add_approval: put a new approval into the index
INSERT INTO approval (asked, session, root, tool, agent, asked_at, status, decided, shown, reminded, decider)
SELECT $1::bigint, s.number, s.root, $3::text, $4::text, $5::bigint, $6::text, $7::bigint, $8::text, $9::bigint, $10::text
  FROM event AS c JOIN session AS s ON s.number = c.position WHERE c.id = $2;

-- add_words: the words by which an approval is found again
UPDATE approval SET words = $2 WHERE asked = $1;

-- change_approval: the columns of an approval that may change
UPDATE approval SET status = $1, decided = $2, shown = $3, reminded = $4, decider = $5 WHERE asked = $6;

-- session: one session for people
SELECT * FROM session_full WHERE number = (SELECT position FROM event WHERE id = $1);

-- latest_run: the number of a session's latest run, and the entry that ended it
SELECT s.runs, f.position, f.head, f.approval, f.body FROM event AS c JOIN session AS s ON s.number = c.position
  LEFT JOIN event AS f ON f.position = s.finished WHERE c.id = $1;

-- some_sessions: those of some ids, in their order
SELECT s.* FROM json_array_elements_text($1::json) WITH ORDINALITY AS k(value, key) JOIN event AS c ON c.id = k.value
  JOIN session_full AS s ON s.number = c.position ORDER BY k.key;

-- sessions_open: what is needed to run the open sessions after a position
SELECT c.id, r.id, s.number, s.last_at, s.waiting_for, s.due_at, s.agent
  FROM session AS s JOIN event AS c ON c.position = s.number JOIN event AS r ON r.position = s.root
 WHERE s.number > $1 AND s.finished IS NULL ORDER BY s.number LIMIT $2;

-- sessions_open_in: the same of some trees (OFFSET 0: tree after tree, never all sessions for each tree)
SELECT c.id, k.value, s.number, s.last_at, s.waiting_for, s.due_at, s.agent
  FROM json_array_elements_text($1::json) AS k(value) JOIN event AS r ON r.id = k.value
  CROSS JOIN LATERAL (SELECT * FROM session WHERE root = r.position OFFSET 0) AS s
  JOIN event AS c ON c.position = s.number
 WHERE s.finished IS NULL ORDER BY s.number;

-- sessions_blocked_in: blocked ones, tree after tree; those of the first tree after a position
SELECT s.* FROM json_array_elements_text($1::json) WITH ORDINALITY AS k(value, key) JOIN event AS r ON r.id = k.value
  CROSS JOIN LATERAL (
       SELECT * FROM session_full WHERE root = r.position AND finished IS NULL
          AND substr(waiting_for, 1, 10) = '["blocked"' AND (k.key > 1 OR number > $2) OFFSET 0) AS s
 ORDER BY k.key, s.number;

-- continued: where the journals of a tree's sessions go on after a position; of those that began before it
SELECT s.number, c.id, (SELECT min(position) FROM event WHERE session = s.number AND position > $3)
  FROM session AS s JOIN event AS c ON c.position = s.number
 WHERE s.root = (SELECT position FROM event WHERE id = $1) AND s.number > $2 AND s.number <= $3
 ORDER BY s.number LIMIT $4;

-- due: passivated sessions that a timer wakes
SELECT c.id, s.due_at FROM session AS s JOIN event AS c ON c.position = s.number
 WHERE s.due_at IS NOT NULL ORDER BY s.due_at, s.number;

-- asking: the operation of an approval, to decide it
SELECT c.id, r.body FROM event AS r JOIN event AS c ON c.position = r.session WHERE r.approval = $1;

-- approval: one approval for people
SELECT * FROM approval_full WHERE asked = (SELECT position FROM event WHERE approval = $1);

-- approvals_shown: those that are not pending, but that a card may still show as pending
SELECT * FROM approval_full WHERE status IS NOT NULL AND shown IS NOT NULL ORDER BY asked;

-- approvals_pending_in: pending ones, tree after tree; those of the first tree after a position
SELECT a.id, a.session_id, a.asked, a.created_head, a.created_body, a.asked_head, a.asked_body, a.shown, a.reminded_body
  FROM json_array_elements_text($1::json) WITH ORDINALITY AS k(value, key) JOIN event AS r ON r.id = k.value
  CROSS JOIN LATERAL (
       SELECT * FROM approval_full WHERE root = r.position AND status IS NULL AND (k.key > 1 OR asked > $2) OFFSET 0) AS a
 ORDER BY k.key, a.asked;

-- counts: sessions, open ones, pending approvals, blocked sessions; each from an index alone
SELECT (SELECT count(*) FROM session), (SELECT count(*) FROM session WHERE finished IS NULL),
       (SELECT count(*) FROM approval WHERE status IS NULL),
       (SELECT count(*) FROM session WHERE finished IS NULL AND substr(waiting_for, 1, 10) = '["blocked"');

-- owner_of_tree: the process that has, or had, a tree, and whether it lives
SELECT o.id, o.host, o.pid, o.since, o.started_by, o.machine, EXISTS (SELECT 1 FROM living AS l WHERE l.id = o.id)
  FROM tree AS t JOIN owner AS o ON o.number = t.owner WHERE t.root = $1;

-- former_owners: the processes that have, or had, some trees, and whether they live
WITH alive AS MATERIALIZED (SELECT id FROM living)
SELECT t.root, o.id, o.host, o.pid, o.since, o.started_by, o.machine, EXISTS (SELECT 1 FROM alive WHERE alive.id = o.id)
  FROM json_array_elements_text($1::json) AS k(value) JOIN tree AS t ON t.root = k.value
  JOIN owner AS o ON o.number = t.owner;

-- owners_of_trees: the living owners of some trees
WITH alive AS MATERIALIZED (SELECT * FROM living)
SELECT t.root, o.id, o.host, o.pid, o.since, o.started_by, o.machine
  FROM json_array_elements_text($1::json) AS k(value) JOIN tree AS t ON t.root = k.value
  JOIN alive AS o ON o.number = t.owner;

-- owners: all living processes that have owned a tree
SELECT id, host, pid, since, started_by, machine FROM living;

-- add_owner: add this process
INSERT INTO owner (id, host, pid, since, started_by, machine, presence, beat)
VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())
ON CONFLICT (id) DO NOTHING;

-- bury: declare an owner dead, for ever
UPDATE owner SET beat = NULL WHERE id = $1;

-- own: give trees to an owner, whichever owner had them
INSERT INTO tree (root, owner) SELECT k.value, o.number FROM json_array_elements_text($1::json) AS k(value), owner AS o
 WHERE o.id = $2
ON CONFLICT (root) DO UPDATE SET owner = excluded.owner;

-- clear_owners: remove the dead owners, but one, to which no tree refers
DELETE FROM owner WHERE id <> $1 AND beat IS NULL AND NOT EXISTS (SELECT 1 FROM tree WHERE tree.owner = owner.number);

-- beat: say that this process lives; no row: it was declared dead
UPDATE owner SET beat = clock_timestamp() WHERE id = $1 AND beat IS NOT NULL RETURNING 1;

-- size_of_tree: how many entries a tree has, and their size in bytes
SELECT count(*), coalesce(sum(octet_length(e.body)), 0)::bigint FROM session AS t JOIN event AS e ON e.session = t.number
 WHERE t.root = (SELECT position FROM event WHERE id = $1);

-- remove_approvals: remove those of a tree, by its number
DELETE FROM approval WHERE session IN (SELECT number FROM session WHERE root = $1);

-- remove_events: remove the journals of a tree, by its number
DELETE FROM event WHERE session IN (SELECT number FROM session WHERE root = $1);

-- remove_spent: remove what its sessions have spent, by its number
DELETE FROM spent WHERE session IN (SELECT number FROM session WHERE root = $1);

-- remove_sessions: remove the sessions of a tree, by its number
DELETE FROM session WHERE root = $1;

-- remove_tree: remove its owner
DELETE FROM tree WHERE root = $1;

-- lines: those of a book after a number
SELECT number, text FROM line WHERE book = $1 AND number > $2 ORDER BY number;

-- line_lock: one process at a time adds lines of this store, so their numbers become visible in order
SELECT pg_advisory_xact_lock(hashtextextended($1, 2));

-- add_lines: add some to a book, in order
INSERT INTO line (book, text)
SELECT $1, value FROM json_array_elements_text($2::json) WITH ORDINALITY AS k(value, key) ORDER BY key;

-- remove_lines: remove some from a book
DELETE FROM line WHERE book = $1 AND text IN (SELECT json_array_elements_text($2::json));

-- make_secret: keep a secret, unless there is one
INSERT INTO secret (name, value) VALUES ('logins', $1) ON CONFLICT DO NOTHING;

-- secret: the secret that signs logins
SELECT value FROM secret WHERE name = 'logins';

-- place_lock: one process at a time takes places of this store
SELECT pg_advisory_xact_lock(hashtextextended($1, 1));

-- take_place: give the first free place of a limit to an owner; one of a dead owner is free
INSERT INTO place (name, number, owner)
SELECT $1::text, n, (SELECT number FROM owner WHERE id = $3) FROM generate_series(0, $2::bigint - 1) AS n
 WHERE NOT EXISTS (SELECT 1 FROM place AS p JOIN living AS l ON l.number = p.owner WHERE p.name = $1 AND p.number = n)
 ORDER BY n LIMIT 1
ON CONFLICT (name, number) DO UPDATE SET owner = excluded.owner RETURNING number;

-- give_place_back: of this owner only
DELETE FROM place WHERE name = $1 AND number = $2 AND owner = (SELECT number FROM owner WHERE id = $3);
