-- Named readers of the log, in the table of single values: the last event that each has read, and when it said so.

-- :keep
INSERT INTO holdfast_meta (name, value) VALUES (:reader, json_object('read', :read, 'at_ms', :now))
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- :drop
DELETE FROM holdfast_meta WHERE name = :reader;

-- :forget
DELETE FROM holdfast_meta WHERE name >= 'reader:' AND name < 'reader;' AND json_extract(value, '$.at_ms') <= :before;

-- :read
SELECT min(json_extract(value, '$.read')) FROM holdfast_meta
WHERE name >= 'reader:' AND name < 'reader;' AND json_extract(value, '$.at_ms') > :after;

-- :all
SELECT substr(name, 8), json_extract(value, '$.read'),
    (SELECT at_ms FROM holdfast_event WHERE seq > json_extract(value, '$.read') ORDER BY seq LIMIT 1) FROM holdfast_meta
WHERE name >= 'reader:' AND name < 'reader;' AND json_extract(value, '$.at_ms') > :after;
