"""One small file per command: parse, call one workflow, print."""
