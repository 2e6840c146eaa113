-- Pages of the file. A pragma takes no parameters, so that the step stands in its name.

-- :free
PRAGMA freelist_count;

-- :pages
PRAGMA page_count;

-- :vacuum
PRAGMA auto_vacuum;

-- :shrink_256
PRAGMA incremental_vacuum(256);
