-- The policy of a job, and errors that the store itself writes.

-- What holds for one job: its task's policy with the caller's overrides above it.
CREATE OR REPLACE FUNCTION holdfast.policy_of(j holdfast.job) RETURNS holdfast.policy LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy;
    o jsonb;
BEGIN
    SELECT * INTO p FROM holdfast.policy WHERE queue = j.queue AND task = coalesce(j.task, '');
    IF NOT FOUND THEN
        p.failures := @MOST_FAILURES; p.stalls := @MOST_STALLS; p.timeouts := @MOST_TIMEOUTS; p.releases := @MOST_RELEASES;
        p.initial := @FIRST_BACKOFF; p.multiplier := @BACKOFF_FACTOR; p.maximum := @LONGEST_BACKOFF; p.jitter := 0;
    END IF;
    IF jsonb_typeof(j.overrides) = 'object' THEN
        p.timeout_ms := coalesce((j.overrides ->> 'timeout_ms')::bigint, p.timeout_ms);
        o := j.overrides -> 'retry';
        IF jsonb_typeof(o) = 'object' THEN
            p.failures := (o ->> 'failures')::integer; p.stalls := (o ->> 'stalls')::integer;
            p.timeouts := (o ->> 'timeouts')::integer; p.releases := (o ->> 'releases')::integer;
            p.attempts := (o ->> 'attempts')::integer; p.snoozes := (o ->> 'snoozes')::integer;
            p.initial := (o ->> 'initial')::double precision; p.multiplier := (o ->> 'multiplier')::double precision;
            p.maximum := (o ->> 'maximum')::double precision; p.jitter := (o ->> 'jitter')::double precision;
        END IF;
    END IF;
    RETURN p;
END $$;

-- How long a run waits after its nth failure or timeout.
CREATE OR REPLACE FUNCTION holdfast.backoff_ms(p holdfast.policy, p_nth integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    exponent double precision := least(p_nth - 1, @MOST_DOUBLED);
    seconds double precision := p.maximum;
BEGIN
    IF p.initial <= 0 OR p.maximum <= 0 THEN
        RETURN 0;
    END IF;
    IF ln(p.initial) + exponent * ln(p.multiplier) < ln(p.maximum) + 1 THEN
        seconds := least(p.initial * power(p.multiplier, exponent), p.maximum);
    END IF;
    RETURN round(seconds * (1 + p.jitter * (random() * 2 - 1)) * 1000)::bigint;
END $$;

-- An error that the store itself has to tell, as it is kept.
CREATE OR REPLACE FUNCTION holdfast.error_record(p_type text, p_kind text, p_message text) RETURNS bytea LANGUAGE sql AS $$
    SELECT convert_to(json_build_object('type', p_type, 'message', p_message, 'kind', p_kind, 'traceback', '',
        'fields', '{}'::json)::text, 'UTF8')
$$;

-- The signatures of the store's own errors, as `ErrorRecord.signature` has them.
CREATE OR REPLACE FUNCTION holdfast.signature(p_type text, p_message text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_type || '|' || regexp_replace(p_message, '[0-9]+', '#', 'g')
        /* signatures */
    END
$$;

-- True for bytes that cannot be the JSON object that was stored, such as one that was cut short.
CREATE OR REPLACE FUNCTION holdfast.is_torn(p_blob bytea) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    size integer := octet_length(p_blob);
BEGIN
    RETURN CASE WHEN p_blob IS NULL THEN false WHEN size < 2 THEN true
        ELSE get_byte(p_blob, 0) <> 123 OR get_byte(p_blob, size - 1) <> 125 END;
END $$;
