-- The step to a store whose approvals can be searched.

-- The name of the session's agent, which each of its approvals has, too.
ALTER TABLE session ADD COLUMN agent TEXT;

-- What a search looks at; null where a program has not computed it yet.
ALTER TABLE approval ADD COLUMN tool TEXT;
ALTER TABLE approval ADD COLUMN agent TEXT;
ALTER TABLE approval ADD COLUMN asked_at INTEGER;
ALTER TABLE approval ADD COLUMN decider TEXT;

-- The words of what was asked, in lower case and without secrets; the rowid is `asked`. They are put in once and never
-- changed. Positions of words are not kept: a search has words, and no phrases.
CREATE VIRTUAL TABLE asked_words USING fts5(words, tokenize = 'ascii', detail = 'none', columnsize = 0);

DROP VIEW approval_full;

-- Approvals with the events that they point to, and what a search looks at.
CREATE VIEW approval_full AS
SELECT r.approval AS id, c.id AS session_id, a.asked, c.head AS created_head, c.body AS created_body,
       r.body AS asked_body, a.shown, m.body AS reminded_body,
       a.status, d.head AS decided_head, d.body AS decided_body, a.session, a.root,
       a.tool, a.agent, a.asked_at, a.decider
  FROM approval AS a
  CROSS JOIN event AS c ON c.position = a.session
  CROSS JOIN event AS r ON r.position = a.asked
  LEFT JOIN event AS d ON d.position = a.decided
  LEFT JOIN event AS m ON m.position = a.reminded;

-- Only a program can mask and cut words: the next one that opens the store computes the index again.
INSERT INTO meta (name, value) SELECT 'stale', 'asked_words' WHERE EXISTS (SELECT 1 FROM event);
