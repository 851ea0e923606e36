-- A queue may be volatile: its jobs are kept in memory and never come here. Only that it is one is remembered.
ALTER TABLE queues ADD COLUMN volatile INTEGER NOT NULL DEFAULT 0 CHECK (volatile IN (0, 1));
