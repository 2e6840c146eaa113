"""The state machine of a job, as data and pure functions: no I/O, no clock, no asyncio."""
