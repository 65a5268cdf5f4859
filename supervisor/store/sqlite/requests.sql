-- The step to a store that keeps once what most requests say alike: with their type, in a row of `head`. An older program
-- would not find it there, so it refuses this store.

DROP VIEW approval_full;

-- Approvals with the events that they point to, and what a search looks at.
CREATE VIEW approval_full AS
SELECT r.approval AS id, c.id AS session_id, a.asked, c.head AS created_head, c.body AS created_body,
       r.head AS asked_head, r.body AS asked_body, a.shown, m.body AS reminded_body,
       a.status, d.head AS decided_head, d.body AS decided_body, a.session, a.root,
       a.tool, a.agent, a.asked_at, a.decider
  FROM approval AS a
  CROSS JOIN event AS c ON c.position = a.session
  CROSS JOIN event AS r ON r.position = a.asked
  LEFT JOIN event AS d ON d.position = a.decided
  LEFT JOIN event AS m ON m.position = a.reminded;
