"""How a trace lies in its SQLite file, and what marks a file as one."""

from __future__ import annotations

APPLICATION_ID = 0x6B337066  # "k3pf"
VERSION_1 = """
CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY,
    monotonic_ns INTEGER NOT NULL,  -- one instant on both clocks: monotonic times differ between boots
    unix_ns INTEGER NOT NULL,       -- 0 where the date is not known
    settings TEXT NOT NULL,         -- JSON
    host TEXT NOT NULL,             -- JSON
    asked TEXT NOT NULL             -- JSON: [[placement, configuration], ...] in order
);
CREATE TABLE builds (identity TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE models (
    fingerprint TEXT PRIMARY KEY,
    record BLOB NOT NULL            -- zlib over JSON: what the header says, every tensor
);
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    sweep INTEGER NOT NULL REFERENCES sweeps,
    configuration TEXT NOT NULL,
    spec TEXT NOT NULL,             -- JSON
    devices TEXT NOT NULL,          -- JSON
    command TEXT NOT NULL,          -- JSON: what was started
    predicted TEXT NOT NULL,        -- JSON: the buffers predicted before the start, or null
    started_ns INTEGER NOT NULL,
    ready_ns INTEGER,
    ended_ns INTEGER,
    status TEXT NOT NULL,
    failure TEXT,
    message TEXT NOT NULL DEFAULT '',
    evidence TEXT NOT NULL DEFAULT ''
);
CREATE INDEX trials_by_configuration ON trials (configuration);
CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    trial INTEGER NOT NULL REFERENCES trials,
    workload TEXT NOT NULL,
    role TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    sent_ns INTEGER NOT NULL,
    ended_ns INTEGER NOT NULL,
    arrivals BLOB NOT NULL,         -- int64, little-endian, monotonic ns
    tokens BLOB NOT NULL,           -- int64, little-endian
    timings TEXT NOT NULL,          -- JSON
    status TEXT NOT NULL,
    reason TEXT NOT NULL
);
CREATE INDEX requests_by_trial ON requests (trial);
CREATE TABLE samples (
    trial INTEGER NOT NULL REFERENCES trials,
    device TEXT NOT NULL,
    counter TEXT NOT NULL,
    period_ns INTEGER NOT NULL,
    time BLOB NOT NULL,             -- int64, little-endian, monotonic ns
    value BLOB NOT NULL             -- float64, little-endian
);
CREATE INDEX samples_by_trial ON samples (trial, device, counter);
CREATE TABLE spans (
    trial INTEGER NOT NULL REFERENCES trials,
    begin_ns INTEGER NOT NULL,      -- of the earliest in this chunk
    end_ns INTEGER NOT NULL,        -- of the latest
    count INTEGER NOT NULL,
    columns BLOB NOT NULL,          -- zlib over one array per column of core.spans.COLUMNS, little-endian
    devices TEXT NOT NULL,          -- JSON: names that the columns refer to by their place
    names TEXT NOT NULL             -- JSON, likewise
);
CREATE INDEX spans_by_trial ON spans (trial, begin_ns);
CREATE TABLE caveats (
    trial INTEGER NOT NULL REFERENCES trials,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    remedy TEXT NOT NULL
);
CREATE TABLE logs (
    trial INTEGER NOT NULL REFERENCES trials,
    program TEXT NOT NULL,          -- llama-server, RPC0, ...
    text BLOB NOT NULL,             -- zlib over the raw bytes
    PRIMARY KEY (trial, program)
);
"""

TO_VERSION_2 = """
CREATE TABLE hypotheses (
    digest TEXT PRIMARY KEY,
    record TEXT NOT NULL,           -- JSON: in its latest words
    registered_unix_ns INTEGER NOT NULL,
    registered_monotonic_ns INTEGER NOT NULL,
    sweep INTEGER NOT NULL REFERENCES sweeps,
    trials_before INTEGER NOT NULL  -- how many trials the trace held then
);
CREATE TABLE legs (
    trial INTEGER PRIMARY KEY REFERENCES trials,
    round INTEGER NOT NULL,
    position INTEGER NOT NULL,
    placement TEXT NOT NULL,
    twin INTEGER NOT NULL           -- 0 or 1
);
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY,
    hypothesis TEXT NOT NULL REFERENCES hypotheses,
    judged_unix_ns INTEGER NOT NULL,
    blocks INTEGER NOT NULL,        -- how many it was judged by
    record TEXT NOT NULL            -- JSON
);
CREATE TABLE op_shares (
    trial INTEGER NOT NULL REFERENCES trials,
    name TEXT NOT NULL,             -- part.MoE, op.MUL_MAT, ...
    frac REAL NOT NULL,
    PRIMARY KEY (trial, name)
);
CREATE TABLE events (
    trial INTEGER NOT NULL REFERENCES trials,
    time_ns INTEGER NOT NULL,       -- monotonic
    device TEXT NOT NULL,           -- empty where the driver does not tell
    kind TEXT NOT NULL,             -- lost, xid, ecc, lacks, process, peer
    detail TEXT NOT NULL,
    number INTEGER                  -- the Xid, or the pid
);
CREATE INDEX events_by_trial ON events (trial);
"""

UPGRADES = (TO_VERSION_2,)
"""What each version adds to the one before, from version 2 on; a new trace is version 1 with all of them."""

SCHEMA_VERSION = 1 + len(UPGRADES)
TABLES = VERSION_1 + "".join(UPGRADES)
