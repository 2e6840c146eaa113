-- What upkeep has to do in many queues: places in the list that is given.

-- Who vanished is dead or silent; a session whose record is gone is as dead. A lease that is too long, since the clock was set back, is
-- left to `reap` itself: to see it, the whole record of a session would have to be read, in each queue.
-- :reap
SELECT json_group_array(each.key) FROM json_each(:queues) AS each
WHERE EXISTS (SELECT 1 FROM holdfast_session AS session WHERE session.queue = each.value
        AND session.id <> :but AND (session.dead = 1 OR session.expires_at_ms <= :now))
    OR EXISTS (SELECT 1 FROM holdfast_job AS job WHERE job.queue = each.value AND job.state = 'active' AND job.session <> :but
        AND NOT EXISTS (SELECT 1 FROM holdfast_session AS session WHERE session.queue = each.value AND session.id = job.session));

-- :untold
SELECT EXISTS (SELECT 1 FROM holdfast_corrupt WHERE told = 0);

-- :expire
SELECT json_group_array(each.key) FROM json_each(:queues) AS each
WHERE EXISTS (SELECT 1 FROM holdfast_job AS job INDEXED BY holdfast_job_completed
        WHERE job.queue = each.value AND job.state = 'completed' AND job.expires_at_ms <= :now)
    OR EXISTS (SELECT 1 FROM holdfast_job AS job INDEXED BY holdfast_job_expiry
        WHERE job.queue = each.value AND job.state <> 'completed' AND job.expires_at_ms <= :now)
    OR EXISTS (SELECT 1 FROM holdfast_lane AS lane WHERE lane.queue = each.value AND lane.cooling = 0 AND lane.ready_at_ms <= :now)
    OR EXISTS (SELECT 1 FROM holdfast_lane AS lane WHERE lane.queue = each.value AND lane.cooling = 1 AND lane.ready_at_ms <= :now)
    OR EXISTS (SELECT 1 FROM holdfast_queue AS queue WHERE queue.name = each.value AND (queue.declared || queue.operator) LIKE '%failed_count%')
        AND EXISTS (SELECT 1 FROM holdfast_job AS job WHERE job.queue = each.value AND job.state = 'failed');

-- :next
SELECT min(session.expires_at_ms) - :now FROM json_each(:queues) AS each JOIN holdfast_session AS session ON session.queue = each.value
WHERE session.dead = 0 AND session.id <> :but AND typeof(session.expires_at_ms) = 'integer';
