-- lease_ms: the lease of whoever was heard last. A silence longer than that one would let pass is an outage.
ALTER TABLE holdfast.pulse ADD COLUMN lease_ms bigint NOT NULL DEFAULT 15000;
