-- Format 2: approvals know when people were reminded of them.

-- Position of the last reminder.
ALTER TABLE approval ADD COLUMN reminded INTEGER;

DROP VIEW approval_full;

-- Approvals with the bodies of the events that they point to.
CREATE VIEW approval_full AS
SELECT a.id, c.id AS session_id, a.operation, a.asked, a.status, a.decided, a.shown, a.reminded, c.body AS created_body,
       r.body AS asked_body, d.body AS decided_body, m.body AS reminded_body, a.session
  FROM approval AS a
  CROSS JOIN event AS c ON c.position = a.session
  CROSS JOIN event AS r ON r.position = a.asked
  LEFT JOIN event AS d ON d.position = a.decided
  LEFT JOIN event AS m ON m.position = a.reminded;
