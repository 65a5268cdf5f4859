CREATE SCHEMA fixture_of_a_format;
CREATE TABLE fixture_of_a_format.approval (
    asked bigint NOT NULL,
    session bigint NOT NULL,
    root bigint NOT NULL,
    status text COLLATE pg_catalog."C",
    decided bigint,
    shown text COLLATE pg_catalog."C",
    reminded bigint,
    tool text COLLATE pg_catalog."C",
    agent text COLLATE pg_catalog."C",
    asked_at bigint,
    decider text COLLATE pg_catalog."C",
    words text COLLATE pg_catalog."C"
)
WITH (fillfactor='70');
CREATE TABLE fixture_of_a_format.event (
    "position" bigint NOT NULL,
    session bigint NOT NULL,
    id text COLLATE pg_catalog."C",
    head integer,
    approval text COLLATE pg_catalog."C",
    body bytea NOT NULL
);
CREATE VIEW fixture_of_a_format.approval_full AS
 SELECT r.approval AS id,
    c.id AS session_id,
    a.asked,
    c.head AS created_head,
    c.body AS created_body,
    r.head AS asked_head,
    r.body AS asked_body,
    a.shown,
    m.body AS reminded_body,
    a.status,
    d.head AS decided_head,
    d.body AS decided_body,
    a.session,
    a.root,
    a.tool,
    a.agent,
    a.asked_at,
    a.decider,
    a.words
   FROM ((((fixture_of_a_format.approval a
     JOIN fixture_of_a_format.event c ON ((c."position" = a.session)))
     JOIN fixture_of_a_format.event r ON ((r."position" = a.asked)))
     LEFT JOIN fixture_of_a_format.event d ON ((d."position" = a.decided)))
     LEFT JOIN fixture_of_a_format.event m ON ((m."position" = a.reminded)));
CREATE TABLE fixture_of_a_format.commit (
    number bigint NOT NULL,
    token text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE fixture_of_a_format.head (
    number integer NOT NULL,
    text text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE fixture_of_a_format.line (
    book text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    text text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE fixture_of_a_format.line ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME fixture_of_a_format.line_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE fixture_of_a_format.owner (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    host text NOT NULL COLLATE pg_catalog."C",
    pid integer NOT NULL,
    since bigint NOT NULL,
    started_by text NOT NULL COLLATE pg_catalog."C",
    machine text NOT NULL COLLATE pg_catalog."C",
    presence bigint NOT NULL,
    beat timestamp with time zone
)
WITH (fillfactor='50');
CREATE VIEW fixture_of_a_format.living AS
 SELECT o.number,
    o.id,
    o.host,
    o.pid,
    o.since,
    o.started_by,
    o.machine,
    o.presence,
    o.beat
   FROM fixture_of_a_format.owner o
  WHERE ((o.beat IS NOT NULL) AND ((clock_timestamp() < (pg_postmaster_start_time() + '00:00:10'::interval)) OR (o.beat > (clock_timestamp() - '00:00:03'::interval)) OR ((o.beat > (clock_timestamp() - '00:00:10'::interval)) AND (EXISTS ( SELECT 1
           FROM pg_locks l
          WHERE ((l.locktype = 'advisory'::text) AND (l.objsubid = 1) AND l.granted AND (l.database = ( SELECT pg_database.oid
                   FROM pg_database
                  WHERE (pg_database.datname = current_database()))) AND ((l.classid)::bigint = (o.presence >> 32)) AND ((l.objid)::bigint = (o.presence & '4294967295'::bigint))))))));
CREATE TABLE fixture_of_a_format.meta (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE fixture_of_a_format.owner ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME fixture_of_a_format.owner_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE fixture_of_a_format.place (
    name text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    owner bigint NOT NULL
);
CREATE TABLE fixture_of_a_format.secret (
    name text NOT NULL COLLATE pg_catalog."C",
    value bytea NOT NULL
);
CREATE TABLE fixture_of_a_format.session (
    number bigint NOT NULL,
    root bigint NOT NULL,
    parent bigint,
    agent text COLLATE pg_catalog."C",
    last_at bigint NOT NULL,
    waiting_for text COLLATE pg_catalog."C",
    due_at bigint,
    finished bigint,
    runs integer NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE fixture_of_a_format.spent (
    session bigint NOT NULL,
    below integer NOT NULL,
    requests bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    nano_usd bigint NOT NULL,
    unpriced bigint NOT NULL,
    uncounted bigint NOT NULL,
    unnumbered bigint NOT NULL
);
CREATE VIEW fixture_of_a_format.session_full AS
 SELECT c.id,
    r.id AS root_id,
    s.number,
    s.last_at,
    s.waiting_for,
    s.due_at,
    s.finished,
    s.runs,
    c.head AS created_head,
    c.body AS created_body,
    f.head AS finished_head,
    f.body AS finished_body,
    s.root,
    ( SELECT (json_build_array(spent.requests, spent.input_tokens, spent.cached_input_tokens, spent.output_tokens, spent.nano_usd, spent.unpriced, spent.uncounted, spent.unnumbered))::text AS json_build_array
           FROM fixture_of_a_format.spent
          WHERE ((spent.session = s.number) AND (spent.below = 0))) AS own,
    ( SELECT (json_build_array(spent.requests, spent.input_tokens, spent.cached_input_tokens, spent.output_tokens, spent.nano_usd, spent.unpriced, spent.uncounted, spent.unnumbered))::text AS json_build_array
           FROM fixture_of_a_format.spent
          WHERE ((spent.session = s.number) AND (spent.below = 1))) AS below
   FROM (((fixture_of_a_format.session s
     JOIN fixture_of_a_format.event c ON ((c."position" = s.number)))
     JOIN fixture_of_a_format.event r ON ((r."position" = s.root)))
     LEFT JOIN fixture_of_a_format.event f ON ((f."position" = s.finished)));
CREATE TABLE fixture_of_a_format.store (
    only_row boolean DEFAULT true NOT NULL,
    format integer NOT NULL,
    last bigint NOT NULL,
    commits bigint NOT NULL,
    CONSTRAINT store_only_row_check CHECK (only_row)
)
WITH (fillfactor='10');
CREATE TABLE fixture_of_a_format.tree (
    root text NOT NULL COLLATE pg_catalog."C",
    owner bigint NOT NULL
)
WITH (fillfactor='80');
INSERT INTO fixture_of_a_format.approval VALUES (22, 18, 18, NULL, NULL, NULL, NULL, 'deploy', 'release', 1767268800000000, NULL, ' deploy target app tar ');
INSERT INTO fixture_of_a_format.commit VALUES (1, '0000000000000000');
INSERT INTO fixture_of_a_format.event VALUES (1, 1, '*', 1, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c2272756c65223a7b226b696e64223a2264656e79222c22746f6f6c223a22726d222c226964223a226161616161616164227d2c226279223a2262656e227d');
INSERT INTO fixture_of_a_format.event VALUES (2, 1, NULL, 1, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c2272756c65223a7b226b696e64223a22616c6c6f77222c22746f6f6c223a226465706c6f79222c227061747465726e223a227b5c227461726765745c223a5c22622e7461725c227d222c226964223a226161616161616165222c2275736573223a322c22756e74696c223a22323232362d30312d30315430303a30303a30305a227d2c226279223a2262656e227d');
INSERT INTO fixture_of_a_format.event VALUES (3, 3, 'done', 2, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22726f6f74223a22646f6e65222c22726571756573746572223a22616e6e222c22637764223a222f227d');
INSERT INTO fixture_of_a_format.event VALUES (4, 3, NULL, 3, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22696e707574223a22616e6e227d');
INSERT INTO fixture_of_a_format.event VALUES (5, 3, NULL, 4, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22686f7374223a22686f7374222c22706964223a317d');
INSERT INTO fixture_of_a_format.event VALUES (6, 3, NULL, 5, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c2274657874223a2268656c6c6f20616e6e227d');
INSERT INTO fixture_of_a_format.event VALUES (7, 3, NULL, 6, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c226b696e64223a22737563636565646564222c2276616c7565223a2268656c6c6f20616e6e227d');
INSERT INTO fixture_of_a_format.event VALUES (8, 8, 'used', 7, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22726f6f74223a2275736564222c22726571756573746572223a22616e6e222c22637764223a222f227d');
INSERT INTO fixture_of_a_format.event VALUES (9, 8, NULL, 3, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22696e707574223a2262227d');
INSERT INTO fixture_of_a_format.event VALUES (10, 8, NULL, 4, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22686f7374223a22686f7374222c22706964223a317d');
INSERT INTO fixture_of_a_format.event VALUES (11, 8, NULL, 8, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c226f7065726174696f6e223a22737465703a6275696c643a3537663564653561613462382331222c226b696e64223a2273746570222c2276616c7565223a22622e746172222c22676976656e223a307d');
INSERT INTO fixture_of_a_format.event VALUES (12, 8, NULL, 9, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c226f7065726174696f6e223a2263616c6c3a6465706c6f793a6237636565653532616333342331222c22746f6f6c223a226465706c6f79222c22617267756d656e7473223a7b22746172676574223a22622e746172227d2c22646967657374223a2262376365656535326163333430366131653131333362653936303835386639356532646436663366373166666265616563343537323233353566333937303432222c2272756c65223a226161616161616165222c22616c6c6f77616e636573223a5b226161616161616165225d2c22676976656e223a317d');
INSERT INTO fixture_of_a_format.event VALUES (13, 1, NULL, 10, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c2272756c65223a226161616161616165222c2273657373696f6e223a2275736564222c226f7065726174696f6e223a2263616c6c3a6465706c6f793a6237636565653532616333342331227d');
INSERT INTO fixture_of_a_format.event VALUES (14, 8, NULL, 11, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c226f7065726174696f6e223a2263616c6c3a6465706c6f793a6237636565653532616333342331222c22686f7374223a22686f7374222c22706964223a317d');
INSERT INTO fixture_of_a_format.event VALUES (15, 8, NULL, 12, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c226f7065726174696f6e223a2263616c6c3a6465706c6f793a6237636565653532616333342331222c226b696e64223a226f6b222c22636f6e74656e74223a226465706c6f79656420622e746172222c2276616c7565223a226465706c6f79656420622e746172222c2264657461696c73223a7b22726561736f6e223a6e756c6c2c22656666656374223a22646f6e65227d7d');
INSERT INTO fixture_of_a_format.event VALUES (16, 8, NULL, 5, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c2274657874223a226465706c6f79656420622e746172227d');
INSERT INTO fixture_of_a_format.event VALUES (17, 8, NULL, 6, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c226b696e64223a22737563636565646564222c2276616c7565223a226465706c6f79656420622e746172227d');
INSERT INTO fixture_of_a_format.event VALUES (18, 18, 'waits', 7, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22726f6f74223a227761697473222c22726571756573746572223a22616e6e222c22637764223a222f227d');
INSERT INTO fixture_of_a_format.event VALUES (19, 18, NULL, 3, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22696e707574223a22617070227d');
INSERT INTO fixture_of_a_format.event VALUES (20, 18, NULL, 4, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c22686f7374223a22686f7374222c22706964223a317d');
INSERT INTO fixture_of_a_format.event VALUES (21, 18, NULL, 8, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c226f7065726174696f6e223a22737465703a6275696c643a3436356239613065636365372331222c226b696e64223a2273746570222c2276616c7565223a226170702e746172222c22676976656e223a307d');
INSERT INTO fixture_of_a_format.event VALUES (22, 18, NULL, 13, 'prfdivzcwqfmxxasaaaaaaaaaaaaaaaaaaaaaaaaag', '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c226f7065726174696f6e223a2263616c6c3a6465706c6f793a3063336264373064343766612331222c22746f6f6c223a226465706c6f79222c22617267756d656e7473223a7b22746172676574223a226170702e746172227d2c22646967657374223a2230633362643730643437666131323664653134366363323433366435626264313266393734313831393138636165656466363534663933346234323466646431222c22676976656e223a317d');
INSERT INTO fixture_of_a_format.event VALUES (23, 18, NULL, 14, NULL, '\x7b226174223a22323032362d30312d30315431323a30303a30305a222c2277616974696e675f666f72223a5b2263616c6c3a6465706c6f793a3063336264373064343766612331225d7d');
INSERT INTO fixture_of_a_format.head VALUES (1, '{"event":"RuleAdded"}');
INSERT INTO fixture_of_a_format.head VALUES (2, '{"event":"SessionCreated","agent":"format_agents:greet","file":null,"path":["greet"],"takes_text":true}');
INSERT INTO fixture_of_a_format.head VALUES (3, '{"event":"RunStarted"}');
INSERT INTO fixture_of_a_format.head VALUES (4, '{"event":"AttemptStarted"}');
INSERT INTO fixture_of_a_format.head VALUES (5, '{"event":"MessageSent"}');
INSERT INTO fixture_of_a_format.head VALUES (6, '{"event":"RunFinished"}');
INSERT INTO fixture_of_a_format.head VALUES (7, '{"event":"SessionCreated","agent":"format_agents:release","file":null,"path":["release"],"takes_text":true}');
INSERT INTO fixture_of_a_format.head VALUES (8, '{"event":"OperationFinished"}');
INSERT INTO fixture_of_a_format.head VALUES (9, '{"event":"ToolCallRequested"}');
INSERT INTO fixture_of_a_format.head VALUES (10, '{"event":"RuleUsed"}');
INSERT INTO fixture_of_a_format.head VALUES (11, '{"event":"ToolCallStarted"}');
INSERT INTO fixture_of_a_format.head VALUES (12, '{"event":"ToolCallFinished"}');
INSERT INTO fixture_of_a_format.head VALUES (13, '{"event":"ToolCallRequested","patterns":[null],"parameters":{"properties":{}},"why":"no rule allows it","uses":10,"minutes":15}');
INSERT INTO fixture_of_a_format.head VALUES (14, '{"event":"RunPassivated"}');
INSERT INTO fixture_of_a_format.meta VALUES ('id', '0000000000');
INSERT INTO fixture_of_a_format.owner OVERRIDING SYSTEM VALUE VALUES (1, '00000000000000000000000000000000', 'host', 1, 0, '[]', 'machine', 0, NULL);
INSERT INTO fixture_of_a_format.session VALUES (3, 3, NULL, 'greet', 1767268800000000, NULL, NULL, 7, 1);
INSERT INTO fixture_of_a_format.session VALUES (8, 8, NULL, 'release', 1767268800000000, NULL, NULL, 17, 1);
INSERT INTO fixture_of_a_format.session VALUES (18, 18, NULL, 'release', 1767268800000000, '["call:deploy:0c3bd70d47fa#1"]', NULL, NULL, 1);
INSERT INTO fixture_of_a_format.store VALUES (true, 1, 23, 1);
INSERT INTO fixture_of_a_format.tree VALUES ('waits', 1);
SELECT pg_catalog.setval('fixture_of_a_format.line_number_seq', 1, false);
SELECT pg_catalog.setval('fixture_of_a_format.owner_number_seq', 1, true);
ALTER TABLE ONLY fixture_of_a_format.approval
    ADD CONSTRAINT approval_pkey PRIMARY KEY (asked);
ALTER TABLE ONLY fixture_of_a_format.commit
    ADD CONSTRAINT commit_pkey PRIMARY KEY (number);
ALTER TABLE ONLY fixture_of_a_format.event
    ADD CONSTRAINT event_pkey PRIMARY KEY ("position");
ALTER TABLE ONLY fixture_of_a_format.head
    ADD CONSTRAINT head_pkey PRIMARY KEY (number);
ALTER TABLE ONLY fixture_of_a_format.line
    ADD CONSTRAINT line_pkey PRIMARY KEY (book, number);
ALTER TABLE ONLY fixture_of_a_format.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);
ALTER TABLE ONLY fixture_of_a_format.owner
    ADD CONSTRAINT owner_id_key UNIQUE (id);
ALTER TABLE ONLY fixture_of_a_format.owner
    ADD CONSTRAINT owner_pkey PRIMARY KEY (number);
ALTER TABLE ONLY fixture_of_a_format.place
    ADD CONSTRAINT place_pkey PRIMARY KEY (name, number);
ALTER TABLE ONLY fixture_of_a_format.secret
    ADD CONSTRAINT secret_pkey PRIMARY KEY (name);
ALTER TABLE ONLY fixture_of_a_format.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (number);
ALTER TABLE ONLY fixture_of_a_format.spent
    ADD CONSTRAINT spent_pkey PRIMARY KEY (session, below);
ALTER TABLE ONLY fixture_of_a_format.store
    ADD CONSTRAINT store_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY fixture_of_a_format.tree
    ADD CONSTRAINT tree_pkey PRIMARY KEY (root);
CREATE INDEX approval_of_session ON fixture_of_a_format.approval USING btree (session, asked);
CREATE INDEX approval_pending ON fixture_of_a_format.approval USING btree (asked) WHERE (status IS NULL);
CREATE INDEX approval_pending_of_tree ON fixture_of_a_format.approval USING btree (root, asked) WHERE (status IS NULL);
CREATE INDEX approval_shown ON fixture_of_a_format.approval USING btree (asked) WHERE ((status IS NOT NULL) AND (shown IS NOT NULL));
CREATE UNIQUE INDEX event_asking ON fixture_of_a_format.event USING btree (approval) WHERE (approval IS NOT NULL);
CREATE UNIQUE INDEX event_first ON fixture_of_a_format.event USING btree (id) WHERE (id IS NOT NULL);
CREATE INDEX event_of_session ON fixture_of_a_format.event USING btree (session, "position");
CREATE UNIQUE INDEX head_text ON fixture_of_a_format.head USING btree (md5(text));
CREATE INDEX session_blocked ON fixture_of_a_format.session USING btree (root) WHERE ((finished IS NULL) AND (substr(waiting_for, 1, 10) = '["blocked"'::text));
CREATE INDEX session_due ON fixture_of_a_format.session USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX session_of_tree ON fixture_of_a_format.session USING btree (root, number);
CREATE INDEX session_open ON fixture_of_a_format.session USING btree (number) WHERE (finished IS NULL);
CREATE INDEX tree_of_owner ON fixture_of_a_format.tree USING btree (owner);
CREATE POLICY of_writers ON fixture_of_a_format.secret USING (has_table_privilege(('fixture_of_a_format.store'::regclass)::oid, 'UPDATE'::text));
ALTER TABLE fixture_of_a_format.secret ENABLE ROW LEVEL SECURITY;
