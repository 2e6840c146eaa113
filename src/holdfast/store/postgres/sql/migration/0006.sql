-- Dead letters stay for 90 days, however many they are, unless the queue says otherwise.
ALTER TABLE holdfast.queue ALTER COLUMN failed_count DROP NOT NULL, ALTER COLUMN failed_count SET DEFAULT NULL,
    ALTER COLUMN failed_ms SET DEFAULT 7776000000;
UPDATE holdfast.queue SET failed_count = NULL WHERE NOT (declared || operator) ? 'retention';
UPDATE holdfast.queue SET failed_ms = 7776000000 WHERE NOT (declared || operator) ? 'retention';
