-- The step to a store that counts what was spent on models.

-- The session above: what is spent below a session is added to each one above it.
ALTER TABLE session ADD COLUMN parent INTEGER;

UPDATE session SET parent = (
    SELECT p.position FROM event AS c CROSS JOIN event AS p ON p.id = json_extract(CAST(c.body AS TEXT), '$.parent')
     WHERE c.position = session.number AND json_valid(CAST(c.body AS TEXT)));

-- What a session has spent itself, and what was spent below it; a row only where something was. It is computed from the
-- events, as the tables session and approval are.
CREATE TABLE spent (
    session             INTEGER NOT NULL,
    below               INTEGER NOT NULL,   -- 0: by the session itself
    requests            INTEGER NOT NULL,
    input_tokens        INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    nano_usd            INTEGER NOT NULL,   -- billionths of a dollar
    unpriced            INTEGER NOT NULL,   -- requests of unknown price
    uncounted           INTEGER NOT NULL,   -- usages of unknown tokens
    unnumbered          INTEGER NOT NULL,   -- usages of an unknown number of requests
    PRIMARY KEY (session, below)
) WITHOUT ROWID;

DROP VIEW session_full;

-- Sessions with the events that they point to, and what was spent.
CREATE VIEW session_full AS
SELECT c.id, r.id AS root_id, s.number, s.last_at, s.waiting_for, s.due_at, s.finished, s.runs,
       c.head AS created_head, c.body AS created_body, f.head AS finished_head, f.body AS finished_body, s.root,
       (SELECT json_array(requests, input_tokens, cached_input_tokens, output_tokens, nano_usd, unpriced, uncounted,
                          unnumbered) FROM spent WHERE session = s.number AND below = 0) AS own,
       (SELECT json_array(requests, input_tokens, cached_input_tokens, output_tokens, nano_usd, unpriced, uncounted,
                          unnumbered) FROM spent WHERE session = s.number AND below = 1) AS below
  FROM session AS s
  CROSS JOIN event AS c ON c.position = s.number
  CROSS JOIN event AS r ON r.position = s.root
  LEFT JOIN event AS f ON f.position = s.finished;
