-- Named readers of the log, in the table of single values: 'number time', up to which each has read without an event
-- missing, and when it said so.

CREATE OR REPLACE FUNCTION holdfast.hold_reader(p_clock bigint, p_reader text, p_number bigint)
RETURNS void LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
BEGIN
    DELETE FROM holdfast.meta WHERE name LIKE 'reader:%' AND split_part(value, ' ', 2)::bigint <= v_now - @READER_FORGOTTEN_MS;
    IF p_number IS NULL THEN
        DELETE FROM holdfast.meta WHERE name = 'reader:' || p_reader;
    ELSE
        INSERT INTO holdfast.meta (name, value) VALUES ('reader:' || p_reader, concat_ws(' ', p_number, v_now))
        ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    END IF;
END $$;

-- The number up to which every reader has read; NULL when no reader is known.
CREATE OR REPLACE FUNCTION holdfast.read_by_all_readers(p_now bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT min(split_part(value, ' ', 1)::bigint) FROM holdfast.meta
    WHERE name LIKE 'reader:%' AND split_part(value, ' ', 2)::bigint > p_now - @READER_FORGOTTEN_MS
$$;

-- The next events in the order of their numbers, found by the index, whatever the statistics say. A row may have the events of a whole
-- call, and begin before the number (`append_pack`).
CREATE OR REPLACE FUNCTION holdfast.events_after(p_number bigint, p_queue text, p_id text, p_limit bigint)
RETURNS SETOF holdfast.event LANGUAGE sql STABLE /* planner */ AS $$
    SELECT p.* FROM (SELECT * FROM holdfast.event WHERE seq > p_number
            AND (p_queue IS NULL OR queue = p_queue) AND (p_id IS NULL OR id = p_id OR p_id = ANY (ids))
        ORDER BY seq OFFSET 0) e
        CROSS JOIN LATERAL holdfast.unpacked(e) p
    WHERE p.seq > p_number AND (p_id IS NULL OR p.id = p_id) LIMIT p_limit
$$;
