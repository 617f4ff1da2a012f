"""The settings of every command: each default, limit and help text stands here, once."""
