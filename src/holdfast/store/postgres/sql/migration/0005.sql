-- The log is read in the order of its numbers. Positions that were made before mean something else: the log has a new epoch.
DROP INDEX holdfast.event_order;
CREATE INDEX event_order ON holdfast.event (seq, xid);
UPDATE holdfast.meta SET value = replace(gen_random_uuid()::text, '-', '') WHERE name = 'epoch';
DELETE FROM holdfast.meta WHERE name LIKE 'reader:%';
DROP FUNCTION IF EXISTS holdfast.read_to(bigint, text, xid8, bigint);
